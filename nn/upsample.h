#pragma once
#include "bytetape/autograd/ops/interpolate.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

/// interpolate(x, options) of (n, c, h, w) (torch.nn.Upsample): Upsample({.scale_factor = 2}). What is out of range is
/// found by interpolate(), in forward.
class Upsample : public Module {
 public:
  explicit Upsample(const InterpolateOptions& options) : options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  InterpolateOptions options_;
};

}  // namespace bytetape::nn
