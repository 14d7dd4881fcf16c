#include <algorithm>

#include "bytetape/cuda/alignment.h"
#include "bytetape/cuda/conv/conv_warpgroup.h"
#include "bytetape/cuda/precision.h"

namespace bytetape::cuda {
namespace {

/// With fewer shares, and so few channels, cuDNN is as fast (9.14, H100).
constexpr int least_shares = 4;

}  // namespace

WarpgroupConv::WarpgroupConv(const ConvSizes& s)
    : n(static_cast<int>(s.n)),
      c(static_cast<int>(s.c)),
      h(static_cast<int>(s.h)),
      w(static_cast<int>(s.w)),
      o(static_cast<int>(s.o)),
      oh(static_cast<int>(s.oh)),
      ow(static_cast<int>(s.ow)),
      pad_h(static_cast<int>(s.p.padding.h)),
      pad_w(static_cast<int>(s.p.padding.w)),
      channels(c % 64 == 0 ? 64 : 32),
      image_tiles(oh / rows * (ow / columns)),
      tiles((n + images - 1) / images * image_tiles),
      shares(std::clamp(processors / (o / outputs * (c / channels)), 1, std::max(tiles, 1))) {}

bool is_warpgroup(const Conv2dWeightGradArgs& a) {
  const ConvSizes s(a);
  const Conv2dParams& p = s.p;
  const bool is_taken = s.dtype == DType::f32 && a.gy.dtype == DType::f32 && a.gw.dtype == DType::f32 && allow_tf32() &&
                        !a.gb.defined() && a.activation == Activation::none;
  const bool has_taps = s.kh == 3 && s.kw == 3 && p.stride.h == 1 && p.stride.w == 1 && p.dilation.h == 1 &&
                        p.dilation.w == 1 && p.groups == 1 && is_small(s);
  // Other sizes would be padded with zeros, in images or in tiles.
  const bool is_whole = s.c % 32 == 0 && s.o % WarpgroupConv::outputs == 0 && s.n >= WarpgroupConv::images &&
                        s.oh % WarpgroupConv::rows == 0 && s.ow % WarpgroupConv::columns == 0;
  return is_taken && has_taps && is_whole && are_channels_last(a.x, a.gy) &&
         same_layout(a.gw.shape, a.gw.strides, channels_last_strides(a.gw.shape)) &&
         are_aligned({&a.x, &a.gy, &a.gw}) && WarpgroupConv(s).shares >= least_shares;
}

}  // namespace bytetape::cuda
