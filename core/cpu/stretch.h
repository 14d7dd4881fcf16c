#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "bytetape/core/cpu/parallel.h"

namespace bytetape::cpu {

/// Calls f(i, begin, end) for ranges that cover all elements of `count` views. Threads share the elements evenly.
template <class ViewOf, class F>
void for_each_stretch(std::size_t count, ViewOf&& view_of, F&& f) {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < count; ++i) total += view_of(i).numel();
  parallel_for(total, grain / 2, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t size = view_of(i).numel(), from = std::max(begin - first, std::int64_t{0}),
                         to = std::min(end - first, size);
      if (from < to) f(i, from, to);
      first += size;
    }
  });
}

}  // namespace bytetape::cpu
