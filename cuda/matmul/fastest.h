#pragma once
#include <limits>

#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {

/// Milliseconds that the device takes for 20 runs: recorded first, since for what is short launching takes longer. No
/// other thread may work on the stream meanwhile: its work would be recorded too.
template <class F>
float time_of(cudaStream_t stream, const F& run) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t recorded = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  try {
    for (int k = 0; k < 20; ++k) run();
  } catch (...) {
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&recorded, graph, 0));
  cudaEvent_t start = nullptr, stop = nullptr;
  check(cudaEventCreate(&start));
  check(cudaEventCreate(&stop));
  check(cudaGraphLaunch(recorded, stream));  // the first one takes longer
  check(cudaEventRecord(start, stream));
  check(cudaGraphLaunch(recorded, stream));
  check(cudaEventRecord(stop, stream));
  check(cudaEventSynchronize(stop));
  float ms = 0;
  check(cudaEventElapsedTime(&ms, start, stop));
  check(cudaEventDestroy(start));
  check(cudaEventDestroy(stop));
  check(cudaGraphExecDestroy(recorded));
  check(cudaGraphDestroy(graph));
  return ms;
}

/// The number of the fastest of `count` algorithms; the earlier of equals. run(i) is false where number i cannot run; 0
/// where none can.
template <class F>
int fastest(int count, cudaStream_t stream, const F& run) {
  float best = std::numeric_limits<float>::infinity();
  int rank = 0;
  for (int i = 0; i < count; ++i) {
    if (!run(i)) continue;
    const float ms = time_of(stream, [&] { run(i); });
    if (ms < best * 0.98f) best = ms, rank = i;
  }
  return rank;
}

}  // namespace bytetape::cuda
