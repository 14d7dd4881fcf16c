#pragma once
#include <algorithm>
#include <cstdint>

#include "bytetape/core/parallel.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace bytetape::cpu {

/// Elements of light work below which a fork and join (about 2 µs) costs more than it saves.
inline constexpr std::int64_t grain = 32768;

/// f(begin, end) over [0, n) in one piece a thread; on the calling thread alone where n < 2 * grain_size. f must not
/// throw, and what it writes must not depend on where the pieces end.
template <class F>
void parallel_for(std::int64_t n, [[maybe_unused]] std::int64_t grain_size, F&& f) {
#ifdef _OPENMP
  const std::int64_t pieces = std::min<std::int64_t>(num_threads(), n / std::max<std::int64_t>(grain_size, 1));
  if (pieces > 1 && !omp_in_parallel()) {
    // Always the whole team: libgomp ends the threads that a smaller one leaves out, and starts them anew for the next.
#pragma omp parallel num_threads(num_threads())
    for (std::int64_t i = omp_get_thread_num(); i < pieces; i += omp_get_num_threads())
      f(n * i / pieces, n * (i + 1) / pieces);
    return;
  }
#endif
  if (n > 0) f(std::int64_t{0}, n);
}

}  // namespace bytetape::cpu
