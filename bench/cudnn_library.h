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

/// A graph of cuDNN whose tensors are bytetape's. It computes in f32.
class CudnnGraph {
 public:
  explicit CudnnGraph(cudnn_frontend::DataType_t io) {
    using enum cudnn_frontend::DataType_t;
    graph_.set_io_data_type(io).set_intermediate_data_type(FLOAT).set_compute_data_type(FLOAT);
  }
  cudnn_frontend::graph::Graph& graph() { return graph_; }

 protected:
  cuda::CudnnTensor input(const Tensor& x) {
    cudnn_frontend::graph::Tensor_attributes t;
    return graph_.tensor(describe(t, x));
  }
  void output(const cuda::CudnnTensor& t, const Tensor& x) { describe(*t, x).set_output(true); }

  cudnn_frontend::graph::Graph graph_;
  cuda::CudnnPack operands_;

 private:
  cudnn_frontend::graph::Tensor_attributes& describe(cudnn_frontend::graph::Tensor_attributes& t, const Tensor& x) {
    const View view = x.write();
    const auto id = static_cast<std::int64_t>(operands_.size()) + 1;
    operands_.emplace(id, view.data());
    return t.set_uid(id)
        .set_dim({view.shape.begin(), view.shape.end()})
        .set_stride({view.strides.begin(), view.strides.end()})
        .set_data_type(cuda::cudnn_type(view.dtype));
  }
};

/// Captures run(), which launches cuDNN's work, as a CUDA graph. Times bursts of `burst` replays with bench::time().
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
