#pragma once
#include "bytetape/nn/module.h"

namespace bytetape::nn {

struct BatchNormOptions {
  double eps = 1e-5, momentum = 0.1;
  bool affine = true;               // learn weight and bias
  bool track_running_stats = true;  // keep running_mean and running_var for evaluation
};

/// Batch normalisation of (n, num_features, h, w) per channel (torch.nn.BatchNorm2d). weight starts at 1, bias at 0.
class BatchNorm2d : public Module {
 public:
  explicit BatchNorm2d(std::int64_t num_features, BatchNormOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 private:
  std::int64_t num_features_;
  BatchNormOptions options_;
};

}  // namespace bytetape::nn
