#pragma once
#include "bytetape/nn/module.h"

namespace bytetape::nn {

/// As the arguments of torch.nn.BatchNorm2d.
struct BatchNormOptions {
  double eps = 1e-5;                ///< added to the variance
  double momentum = 0.1;            ///< how far a batch moves the running statistics towards its own
  bool affine = true;               ///< learn weight and bias
  bool track_running_stats = true;  ///< keep running_mean and running_var for evaluation; else it uses the batch's
};

/// Batch normalisation of (n, num_features, h, w) per channel (torch.nn.BatchNorm2d). weight starts at 1, bias at 0,
/// running_mean at 0, running_var at 1. The formula is at batch_norm().
class BatchNorm2d : public Module {
 public:
  /// Throws ValueError where num_features is not positive.
  explicit BatchNorm2d(std::int64_t num_features, BatchNormOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Parameter weight, bias;            ///< (num_features,); undefined unless affine
  Buffer running_mean, running_var;  ///< buffers (num_features,); undefined unless track_running_stats
  Buffer num_batches_tracked;        ///< buffer, an i64 scalar: batches seen in training; undefined likewise

 private:
  std::int64_t num_features_;
  BatchNormOptions options_;
};

}  // namespace bytetape::nn
