#include "bytetape/nn/upsample.h"

#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/check.h"
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

PixelShuffle::PixelShuffle(std::int64_t upscale_factor) : factor_(upscale_factor) {
  check<ValueError>(factor_ > 0 && factor_ < (std::int64_t{1} << 31),
                    "PixelShuffle needs a factor from 1 to 2^31 - 1, got ", factor_);
}

Tensor PixelShuffle::forward(const Tensor& x) {
  const std::int64_t r = factor_;
  check(x.defined() && x.rank() == 4 && x.size(1) % (r * r) == 0,
        "PixelShuffle expects (n, c, h, w) with c divisible by ", r * r, ", got ", bytetape::describe(x));
  const std::int64_t n = x.size(0), c = x.size(1) / (r * r), h = x.size(2), w = x.size(3);
  return reshape(permute(reshape(x, {n, c, r, r, h, w}), {0, 1, 4, 2, 5, 3}), {n, c, h * r, w * r});
}

std::string PixelShuffle::describe() const { return detail::concat("PixelShuffle(", factor_, ")"); }

}  // namespace bytetape::nn
