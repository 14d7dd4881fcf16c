#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "bytetape/core/shape.h"

namespace bytetape {

/// The loop over K operands of one shape. Dims that all operands traverse as one are merged, and dims of size 1 are
/// dropped. Strides have the unit of the strides added, usually elements.
template <std::size_t K>
struct Walk {
  Shape shape;
  std::array<Strides, K> strides;

  constexpr Walk() = default;
  /// A loop over `shape` in the memory order of the first operand: its smallest stride is innermost.
  constexpr Walk(const Shape& all, const std::array<const Strides*, K>& operands) {
    const Strides& lead = *operands[0];
    std::array<int, max_rank> order{};
    int rank = 0;
    for (int d = 0; d < all.size(); ++d) {
      int at = rank++;  // insertion sort: stable, and the list is nearly sorted
      for (; at > 0 && lead[order[at - 1]] < lead[d]; --at) order[at] = order[at - 1];
      order[at] = d;
    }
    for (int i = 0; i < rank; ++i) {
      std::array<std::int64_t, K> steps{};
      for (std::size_t k = 0; k < K; ++k) steps[k] = (*operands[k])[order[i]];
      add(all[order[i]], steps);
    }
  }

  /// Adds a dim inside the existing ones. steps[k] is the stride of operand k.
  constexpr void add(std::int64_t size, const std::array<std::int64_t, K>& steps) {
    if (size == 1) return;
    const int last = shape.size() - 1;
    bool merges = last >= 0;
    for (std::size_t k = 0; merges && k < K; ++k) merges = strides[k][last] == steps[k] * size;
    if (merges)
      shape[last] *= size;
    else
      shape.push_back(size);
    for (std::size_t k = 0; k < K; ++k) {
      if (merges)
        strides[k][last] = steps[k];
      else
        strides[k].push_back(steps[k]);
    }
  }
  /// Adds a dim of size 1 to an empty loop, so that there is always an innermost dim.
  constexpr void complete() {
    if (!shape.empty()) return;
    shape.push_back(1);
    for (Strides& s : strides) s.push_back(0);
  }
};

}  // namespace bytetape
