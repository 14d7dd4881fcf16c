#pragma once
#include <limits>

#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {

/// Returns the milliseconds for 20 runs on the device. The runs are recorded as a graph first, because launching short
/// kernels takes longer than running them. No other thread may use the stream during the recording, or its work would
/// be recorded too.
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
  check(cudaGraphLaunch(recorded, stream));  // a warm-up, because the first launch takes longer
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

/// Returns the number of the fastest of `count` algorithms. A later one must be 2 % faster to win. run(i) returns false
/// if algorithm i cannot run. Returns 0 if none can.
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
