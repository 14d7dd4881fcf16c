#pragma once
#include <cstdint>

#include "bytetape/core/kernels/conv.h"

namespace bytetape {

/// The sizes of a convolution. A patch is the input of one output pixel in one group: (kh, kw, c / groups) elements.
struct ConvSizes {
  DType dtype;
  std::int64_t n, c, h, w, o, kh, kw, oh, ow, groups;
  Conv2dParams p;

  explicit ConvSizes(const Conv2dArgs& a) : ConvSizes(a.x, a.weight, a.y, a.params) {}
  explicit ConvSizes(const Conv2dInputGradArgs& a) : ConvSizes(a.gx, a.weight, a.gy, a.params) {}
  explicit ConvSizes(const Conv2dWeightGradArgs& a) : ConvSizes(a.x, a.gw, a.gy, a.params) {}
  ConvSizes(const ConstView& x, const ConstView& weight, const ConstView& y, const Conv2dParams& params)
      : dtype(x.dtype),
        n(x.shape[0]),
        c(x.shape[1]),
        h(x.shape[2]),
        w(x.shape[3]),
        o(y.shape[1]),
        kh(weight.shape[2]),
        kw(weight.shape[3]),
        oh(y.shape[2]),
        ow(y.shape[3]),
        groups(params.groups),
        p(params) {}
  std::int64_t group_in() const { return c / groups; }
  std::int64_t group_out() const { return o / groups; }
  std::int64_t pixels() const { return oh * ow; }
  std::int64_t taps() const { return kh * kw; }
  std::int64_t patch() const { return taps() * group_in(); }
  std::int64_t weights() const { return o * patch(); }
  std::int64_t x_numel() const { return n * c * h * w; }
  std::int64_t y_numel() const { return n * o * oh * ow; }
};

}  // namespace bytetape
