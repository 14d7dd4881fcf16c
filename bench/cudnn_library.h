#pragma once
// cuDNN for benchmarks that call it without bytetape's ops.
#include <cuda_runtime_api.h>

#include "bench/harness.h"
#include "bytetape/bytetape.h"
#include "cuda/runtime/cudnn.h"

namespace bytetape::bench {

/// Owns a handle of CUDA or cuDNN.
template <auto destroy>
class Owned;
template <class Status, class Handle, Status (*destroy)(Handle)>
class Owned<destroy> {
 public:
  /// make(&handle) makes the handle.
  explicit Owned(const auto& make) { cuda::check(make(&handle_)); }
  ~Owned() { destroy(handle_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  operator Handle() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

/// cuDNN on a stream of its own.
struct CudnnOnStream {
  CudnnOnStream() { cuda::check(cudnnSetStream(handle, stream)); }
  Owned<cudaStreamDestroy> stream{[](auto* s) { return cudaStreamCreateWithFlags(s, cudaStreamNonBlocking); }};
  Owned<cudnnDestroy> handle{cudnnCreate};
};

/// Captures run(), which launches cuDNN's work, as a CUDA graph, and times bursts of `burst` replays with bench::time().
/// Calls run() once before.
template <class F>
Timing time_captured(const CudnnOnStream& cudnn, int burst, F&& run) {
  synchronize(default_device());  // the operands are written on bytetape's stream
  run();
  cuda::check(cudaStreamBeginCapture(cudnn.stream, cudaStreamCaptureModeThreadLocal));
  try {
    run();
  } catch (...) {
    cudaGraph_t broken = nullptr;
    if (cudaStreamEndCapture(cudnn.stream, &broken) == cudaSuccess) cudaGraphDestroy(broken);
    throw;
  }
  const Owned<cudaGraphDestroy> captured([&](auto* graph) { return cudaStreamEndCapture(cudnn.stream, graph); });
  const Owned<cudaGraphExecDestroy> executable([&](auto* graph) { return cudaGraphInstantiate(graph, captured, 0); });
  return time(
      3, burst, [&] { cuda::check(cudaGraphLaunch(executable, cudnn.stream)); },
      [&] { cuda::check(cudaStreamSynchronize(cudnn.stream)); });
}

}  // namespace bytetape::bench
