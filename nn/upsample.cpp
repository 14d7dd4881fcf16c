#include "bytetape/nn/upsample.h"

#include "bytetape/core/error.h"

namespace bytetape::nn {

Tensor Upsample::forward(const Tensor& x) { return interpolate(x, options_); }

std::string Upsample::describe() const {
  const auto& [size, factor, mode, align_corners] = options_;
  std::string text = factor == 0 ? detail::concat("Upsample(size=", size.h, "x", size.w)
                                 : detail::concat("Upsample(scale_factor=", factor.h, "x", factor.w);
  text += mode == InterpolationMode::nearest ? ", mode=nearest" : ", mode=bilinear";
  return text + (align_corners ? ", align_corners=true)" : ")");
}

}  // namespace bytetape::nn
