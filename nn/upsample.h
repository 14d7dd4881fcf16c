#pragma once
#include "bytetape/autograd/ops/interpolate.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

/// Returns interpolate(x, options) for x (n, c, h, w) (torch.nn.Upsample): Upsample({.scale_factor = 2}).
/// interpolate() checks the options, when forward() is called.
class Upsample : public Module {
 public:
  explicit Upsample(const InterpolateOptions& options) : options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  InterpolateOptions options_;
};

}  // namespace bytetape::nn
