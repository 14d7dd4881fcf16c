#pragma once
#include <limits>

#include "bytetape/cuda/launch.h"

namespace bytetape::cuda {

/// The number of the fastest of `count` algorithms, each run a few times; the earlier of equals. run(i) is false where
/// number i cannot run; 0 where none can.
template <class F>
int fastest(int count, cudaStream_t stream, const F& run) {
  cudaEvent_t start = nullptr, stop = nullptr;
  check(cudaEventCreate(&start));
  check(cudaEventCreate(&stop));
  float best = std::numeric_limits<float>::infinity();
  int rank = 0;
  for (int i = 0; i < count; ++i) {
    bool can = true;
    for (int k = 0; k < 3 && can; ++k) can = run(i);
    if (!can) continue;
    check(cudaEventRecord(start, stream));
    for (int k = 0; k < 20; ++k) run(i);
    check(cudaEventRecord(stop, stream));
    check(cudaEventSynchronize(stop));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start, stop));
    if (ms < best * 0.98f) best = ms, rank = i;
  }
  check(cudaEventDestroy(start));
  check(cudaEventDestroy(stop));
  return rank;
}

}  // namespace bytetape::cuda
