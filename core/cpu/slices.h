#pragma once
#include <algorithm>
#include <cstdint>

#include "bytetape/core/cpu/parallel.h"

namespace bytetape::cpu {

/// Returns the number of slices in which share() divides calls: one for each thread, if there are enough calls.
inline std::int64_t slices_of(std::int64_t count) { return std::min<std::int64_t>(num_threads(), count); }

/// Calls f(i, slice) for i in [0, count). Threads share the slices, and the calls of a slice run one after the other.
template <class F>
void share(std::int64_t count, const F& f) {
  const std::int64_t slices = slices_of(count);
  parallel_for(slices, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k)
      for (std::int64_t i = count * k / slices; i < count * (k + 1) / slices; ++i) f(i, k);
  });
}

}  // namespace bytetape::cpu
