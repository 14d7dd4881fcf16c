#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "bytetape/core/view.h"

namespace bytetape::cuda {

/// Whether an address is a multiple of `bytes`, so that vectors of that size can be accessed there. On host and
/// device.
constexpr bool is_aligned(const void* p, std::size_t bytes = 16) { return std::bit_cast<std::size_t>(p) % bytes == 0; }
/// The same of the first element's. True for constants and undefined views, which have no address.
inline bool is_aligned(const ConstView& x, std::size_t bytes = 16) { return is_aligned(x.data(), bytes); }
inline bool are_aligned(std::initializer_list<const ConstView*> views, std::size_t bytes = 16) {
  return std::all_of(views.begin(), views.end(), [bytes](const ConstView* v) { return is_aligned(*v, bytes); });
}
/// Whether x can be accessed in vectors of `width` elements along a dim: adjacent, whole in each row, and aligned.
inline bool has_vectors(const ConstView& x, int along, std::int64_t width) {
  if (x.strides[along] != 1 || x.shape[along] % width != 0) return false;
  for (int d = 0; d < x.shape.size(); ++d)
    if (d != along && x.shape[d] > 1 && x.strides[d] % width != 0) return false;
  return is_aligned(x, static_cast<std::size_t>(width) * size_of(x.dtype));
}

}  // namespace bytetape::cuda
