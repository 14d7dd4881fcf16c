#include <algorithm>
#include <bit>
#include <limits>

#include "bytetape/cuda/conv_direct.h"

namespace bytetape::cuda {
namespace {

constexpr std::size_t most_shared = 48 << 10;  // what every kernel gets unasked, and four thread blocks a processor
constexpr std::size_t most_weights = 29 << 10;
constexpr int most_pixels = 768, widest = 128;  // of a tile
constexpr int start = 64;                       // what beginning a tile costs, in pixels
constexpr std::int64_t processors = 132;        // of an H100; any number is right

template <class I>
constexpr I divide_up(I a, I b) {
  return (a + b - 1) / b;
}

/// The least power of two that is enough threads for `quads` quads of outputs.
int lanes_for(int quads, int most) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::min(quads, most))));
}

}  // namespace

DirectConv::DirectConv(const ConvSizes& s, ConvMap map)
    : c(static_cast<int>(s.c)),
      h(static_cast<int>(s.h)),
      w(static_cast<int>(s.w)),
      o(static_cast<int>(s.o)),
      oh(static_cast<int>(s.oh)),
      ow(static_cast<int>(s.ow)),
      kh(static_cast<int>(s.kh)),
      kw(static_cast<int>(s.kw)),
      channels(c == 2 ? 3 : c) {
  for (int d = 0; d < 2; ++d) {
    stride[d] = static_cast<int>(s.p.stride[d]);
    padding[d] = static_cast<int>(s.p.padding[d]);
    dilation[d] = static_cast<int>(s.p.dilation[d]);
  }
  const std::size_t places = most_pixels * pixel_bytes;
  const int quads = o / quad;
  if (map == ConvMap::forward) {
    lanes = lanes_for(divide_up(quads, forward_quads), 8);
    while (lanes > 1 && weight_bytes() > most_weights) lanes /= 2;
    output_groups = divide_up(quads, forward_quads * lanes);
    choose_tile(s.n, most_shared - places - weight_bytes(),
                divide_up<std::int64_t>(processors * forward_blocks(channels), output_groups));
    blocks = tiles;
    shared = values + places + weight_bytes();
  } else {
    lanes = lanes_for(quads, warp);
    output_groups = divide_up(quads, lanes);
    tap_groups = divide_up(taps(), taps_a_thread(channels));
    const std::int64_t at_once = processors * weight_grad_blocks(channels) / (output_groups * tap_groups);
    choose_tile(s.n, most_shared - places, at_once);
    blocks = std::min(at_once, tiles);
    const int sums = (taps_a_thread(channels) * channels + 1) * lanes * quad;
    shared = std::max(values + places, static_cast<std::size_t>(sums) * sizeof(float));
  }
}

void DirectConv::choose_tile(std::int64_t n, std::size_t room, std::int64_t at_once) {
  const int seen[2] = {(kh - 1) * dilation[0] + 1, (kw - 1) * dilation[1] + 1};
  const std::size_t pixel = static_cast<std::size_t>(width(channels)) * sizeof(float);
  values = 0;
  tiles = 0;
  // Full rows where they fit, since each tile loads what it sees beyond its edges again.
  for (across = divide_up(ow, widest);; across *= 2) {
    tile_w = divide_up(ow, across);
    columns = (tile_w - 1) * stride[1] + seen[1];
    const auto most_rows = static_cast<int>(room / (static_cast<std::size_t>(columns) * pixel));
    tile_h = most_rows < seen[0] ? 0 : (most_rows - seen[0]) / stride[0] + 1;
    if (tile_h >= std::min(oh, 2) || (tile_h > 0 && tile_w <= warp)) break;
    if (tile_w == 1) return;
  }
  across = divide_up(ow, tile_w);
  // Of tiles that fit, those with which thread blocks at a time get done first.
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int fitting = std::min({tile_h, oh, most_pixels / tile_w}); fitting > 0; --fitting) {
    const std::int64_t turns = divide_up(n * across * divide_up(oh, fitting), at_once);
    const std::int64_t cost = turns * (fitting * tile_w + start);
    if (cost >= least) continue;
    least = cost;
    tile_h = fitting;
  }
  down = divide_up(oh, tile_h);
  rows = (tile_h - 1) * stride[0] + seen[0];
  tiles = n * down * across;
  values = divide_up(static_cast<std::size_t>(rows * columns) * pixel, std::size_t{16}) * 16;
}

bool is_direct(const ConvSizes& s, ConvMap map, const ConstView& y) {
  constexpr std::int64_t elements = std::numeric_limits<std::int32_t>::max(), step = 1 << 10;
  const auto is_step = [&](Size2 v) { return v.h < step && v.w < step; };
  // What tensor cores do for the price of memory is theirs where there is more of it than this.
  const bool is_true_f32 = s.dtype == DType::f32 && !allow_tf32();
  const std::int64_t most = is_true_f32 ? 4 * 7 * 7 : 32;
  return map != ConvMap::input_grad && s.n > 0 && s.dtype != DType::f64 && s.groups == 1 && s.c <= 4 &&
         s.o % DirectConv::quad == 0 && s.o <= 512 && s.kh <= 7 && s.kw <= 7 && s.c * s.taps() <= most &&
         s.x_numel() <= elements && s.y_numel() <= elements && is_step(s.p.stride) && is_step(s.p.padding) &&
         is_step(s.p.dilation) && is_channels_last(y.shape, y.strides) && DirectConv(s, map).tile_h > 0;
}

}  // namespace bytetape::cuda
