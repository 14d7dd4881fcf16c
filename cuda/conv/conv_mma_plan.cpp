#include <algorithm>

#include "bytetape/cuda/conv/conv_mma.h"

namespace bytetape::cuda {

MmaConv::MmaConv(const ConvSizes& s, ConvMap map)
    : ConvTiles(s), element(size_of(s.dtype)), padded(patch() < 16 ? 16 : 32) {
  const std::size_t pixel = static_cast<std::size_t>(c) * element;
  const int group = static_cast<int>(group_bytes / element);
  output_groups = divide_up(o, group);
  if (map == ConvMap::forward) {
    choose_tile(s.n, pixel, most_shared - places - weight_bytes(),
                divide_up<std::int64_t>(processors * forward_blocks, output_groups));
    blocks = tiles;
    shared = values + places + weight_bytes();
  } else {
    const std::int64_t at_once = processors * weight_grad_blocks / output_groups;
    choose_tile(s.n, pixel, most_shared - places, at_once);
    blocks = std::min(at_once, tiles);
    const int sums = warps * padded * (group + 1);
    shared = std::max(values + places, static_cast<std::size_t>(sums) * sizeof(float));
  }
}

bool is_mma(const ConvSizes& s, ConvMap map, const ConstView& y) {
  return has_few_channels(s, y) && (s.dtype != DType::f32 || allow_tf32()) && s.patch() <= MmaConv::most_patch &&
         static_cast<std::size_t>(s.o) * size_of(s.dtype) % MmaConv::vector_bytes == 0 && MmaConv(s, map).tile_h > 0;
}

}  // namespace bytetape::cuda
