#include <algorithm>
#include <bit>

#include "bytetape/cuda/conv/conv_direct.h"

namespace bytetape::cuda {
namespace {

constexpr std::size_t most_weights = 29 << 10;

/// Returns the least power of two of threads for `quads` quads of outputs.
int lanes_for(int quads, int most) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::min(quads, most))));
}

}  // namespace

DirectConv::DirectConv(const ConvSizes& s, ConvMap map) : ConvTiles(s), channels(c == 2 ? 3 : c) {
  const std::size_t pixel = static_cast<std::size_t>(width(channels)) * sizeof(float);
  const int quads = o / quad;
  if (map == ConvMap::forward) {
    lanes = lanes_for(divide_up(quads, forward_quads), 8);
    while (lanes > 1 && weight_bytes() > most_weights) lanes /= 2;
    output_groups = divide_up(quads, forward_quads * lanes);
    choose_tile(s.n, pixel, most_shared - places - weight_bytes(),
                divide_up<std::int64_t>(processors * forward_blocks(channels), output_groups));
    blocks = tiles;
    shared = values + places + weight_bytes();
  } else {
    lanes = lanes_for(quads, warp);
    output_groups = divide_up(quads, lanes);
    tap_groups = divide_up(taps(), taps_a_thread(channels));
    const std::int64_t at_once = processors * weight_grad_blocks(channels) / (output_groups * tap_groups);
    choose_tile(s.n, pixel, most_shared - places, at_once);
    blocks = std::min(at_once, tiles);
    const int sums = (taps_a_thread(channels) * channels + 1) * lanes * quad;
    shared = std::max(values + places, static_cast<std::size_t>(sums) * sizeof(float));
  }
}

bool is_direct(const ConvSizes& s, ConvMap map, const ConstView& y) {
  // For longer patches, tensor cores are faster.
  const bool is_true_f32 = s.dtype == DType::f32 && !allow_tf32();
  const std::int64_t most = is_true_f32 ? 4 * 7 * 7 : 32;
  return has_few_channels(s, y) && s.o % DirectConv::quad == 0 && s.patch() <= most && DirectConv(s, map).tile_h > 0;
}

}  // namespace bytetape::cuda
