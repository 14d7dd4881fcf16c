#pragma once
#include "bytetape/autograd/ops/images/interpolate.h"
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

/// Turns channels into pixels: (n, c r^2, h, w) -> (n, c, h r, w r), with r the upscale factor (torch.nn.PixelShuffle;
/// Shi et al., "Real-time single image and video super-resolution using an efficient sub-pixel convolutional neural
/// network", 2016).
class PixelShuffle : public Module {
 public:
  /// Throws ValueError if the factor is not positive.
  explicit PixelShuffle(std::int64_t upscale_factor);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  std::int64_t factor_;
};

}  // namespace bytetape::nn
