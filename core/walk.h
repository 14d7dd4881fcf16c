#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "bytetape/core/shape.h"

namespace bytetape {

/// How K operands of one shape are stepped through: dims that all of them walk as one are merged, and those of size 1
/// are left out. Strides count whatever was added, elements as a rule.
template <std::size_t K>
struct Walk {
  Shape shape;
  std::array<Strides, K> strides;

  constexpr Walk() = default;
  /// Over all of `shape`, in the order in which the first operand lies: its smallest stride is innermost.
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

  /// Adds a dim within those that are there; operand k steps through it by steps[k].
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
  /// A walk over one element gets a dim of size 1, so that there always is an innermost one.
  constexpr void complete() {
    if (!shape.empty()) return;
    shape.push_back(1);
    for (Strides& s : strides) s.push_back(0);
  }
};

}  // namespace bytetape
