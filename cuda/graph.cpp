// Recorded work as a CUDA graph: a stream of its own is put into capture mode while the work is given to it.
#include "bytetape/cuda/launch.h"
#include "bytetape/cuda/runtime.h"

namespace bytetape::cuda {
namespace {

class Graph final : public Recording {
 public:
  Graph(Device device, cudaGraph_t graph) : device_(device) { check(cudaGraphInstantiate(&graph_, graph, 0)); }
  /// Waits for the last replay: the driver may still read from the graph.
  ~Graph() override {
    if (last_) cudaStreamSynchronize(last_);
    cudaGraphExecDestroy(graph_);
  }
  void replay() override {
    last_ = stream_of(device_);
    check(cudaGraphLaunch(graph_, last_));
  }

 private:
  Device device_;
  cudaGraphExec_t graph_ = nullptr;
  cudaStream_t last_ = nullptr;
};

/// A stream in capture mode. What is recorded on it can be taken from it once; else it is dropped.
class CapturingStream {
 public:
  explicit CapturingStream(Device device) {
    stream_of(device);  // makes it the current one
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    if (const cudaError_t status = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal)) {
      cudaStreamDestroy(stream_);
      check(status);
    }
    recording_ = true;
  }
  ~CapturingStream() {
    if (recording_) cudaStreamEndCapture(stream_, &graph_);
    if (graph_) cudaGraphDestroy(graph_);
    cudaStreamDestroy(stream_);
    cudaGetLastError();  // of a capture that failed, and was reported
  }
  CapturingStream(const CapturingStream&) = delete;
  CapturingStream& operator=(const CapturingStream&) = delete;

  cudaStream_t get() const { return stream_; }
  cudaGraph_t take() {
    recording_ = false;
    check(cudaStreamEndCapture(stream_, &graph_));
    return graph_;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  bool recording_ = false;
};

}  // namespace

std::unique_ptr<Recording> record(int index, const std::function<void()>& work) {
  const Device device = Device::cuda(index);
  CapturingStream stream(device);
  {
    const RecordingScope scope(index, stream.get());
    work();
  }
  return std::make_unique<Graph>(device, stream.take());
}

}  // namespace bytetape::cuda
