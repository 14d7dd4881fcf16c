#pragma once
#include <algorithm>
#include <cstdint>

#include "bytetape/core/parallel.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace bytetape::cpu {

/// The elements of light work below which a fork and join (about 2 µs) costs more than it saves.
inline constexpr std::int64_t grain = 32768;

/// Calls f(begin, end) for parts of [0, n), one per thread. Runs on the calling thread alone if n < 2 * grain_size. f
/// must not throw, and its results must not depend on where the parts end.
template <class F>
void parallel_for(std::int64_t n, [[maybe_unused]] std::int64_t grain_size, F&& f) {
#ifdef _OPENMP
  const std::int64_t pieces = std::min<std::int64_t>(num_threads(), n / std::max<std::int64_t>(grain_size, 1));
  if (pieces > 1 && !omp_in_parallel()) {
    // Always uses the whole team, because libgomp ends threads that a smaller team leaves out, and restarts them later.
#pragma omp parallel num_threads(num_threads())
    for (std::int64_t i = omp_get_thread_num(); i < pieces; i += omp_get_num_threads())
      f(n * i / pieces, n * (i + 1) / pieces);
    return;
  }
#endif
  if (n > 0) f(std::int64_t{0}, n);
}

}  // namespace bytetape::cpu
