#include <algorithm>
#include <limits>

#include "bytetape/cuda/conv/conv_tiles.h"

namespace bytetape::cuda {
namespace {

constexpr int widest = 128;  // widest tile, in pixels
constexpr int start = 64;    // cost of starting a tile, in pixels

}  // namespace

ConvTiles::ConvTiles(const ConvSizes& s)
    : c(static_cast<int>(s.c)),
      h(static_cast<int>(s.h)),
      w(static_cast<int>(s.w)),
      o(static_cast<int>(s.o)),
      oh(static_cast<int>(s.oh)),
      ow(static_cast<int>(s.ow)),
      kh(static_cast<int>(s.kh)),
      kw(static_cast<int>(s.kw)) {
  for (int d = 0; d < 2; ++d) {
    stride[d] = static_cast<int>(s.p.stride[d]);
    padding[d] = static_cast<int>(s.p.padding[d]);
    dilation[d] = static_cast<int>(s.p.dilation[d]);
  }
}

void ConvTiles::choose_tile(std::int64_t n, std::size_t pixel, std::size_t room, std::int64_t at_once) {
  const int seen[2] = {(kh - 1) * dilation[0] + 1, (kw - 1) * dilation[1] + 1};
  // Prefers full rows, because each tile loads the pixels beyond its edges again.
  for (across = divide_up(ow, widest);; across *= 2) {
    tile_w = divide_up(ow, across);
    columns = (tile_w - 1) * stride[1] + seen[1];
    const auto most_rows = static_cast<int>(room / (static_cast<std::size_t>(columns) * pixel));
    tile_h = most_rows < seen[0] ? 0 : (most_rows - seen[0]) / stride[0] + 1;
    if (tile_h >= std::min(oh, 2) || (tile_h > 0 && tile_w <= warp)) break;
    if (tile_w == 1) return;
  }
  across = divide_up(ow, tile_w);
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

bool has_few_channels(const ConvSizes& s, const ConstView& y) {
  constexpr std::int64_t elements = std::numeric_limits<std::int32_t>::max(), step = 1 << 10;
  const auto is_step = [&](Size2 v) { return v.h < step && v.w < step; };
  return s.n > 0 && s.dtype != DType::f64 && s.groups == 1 && s.c <= ConvTiles::most_channels && s.o <= 512 &&
         s.kh <= 7 && s.kw <= 7 && s.x_numel() <= elements && s.y_numel() <= elements && is_step(s.p.stride) &&
         is_step(s.p.padding) && is_step(s.p.dilation) && is_channels_last(y.shape, y.strides);
}

}  // namespace bytetape::cuda
