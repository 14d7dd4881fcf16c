// Recorded work as a CUDA graph: streams of its own are put into capture mode while the work is given to them.
#include <memory>
#include <type_traits>

#include "bytetape/core/memory/scope.h"
#include "bytetape/cuda/graph_fills.h"
#include "bytetape/cuda/launch.h"
#include "bytetape/cuda/runtime.h"
#include "bytetape/cuda/streams.h"

namespace bytetape::cuda {
namespace {

struct Destroy {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
using GraphHandle = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy>;

class Graph final : public Recording {
 public:
  Graph(Device device, GraphHandle graph) : device_(device) {
    fill_by_kernels(graph.get());
    check(cudaGraphInstantiate(&graph_, graph.get(), 0));
  }
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

/// While it lives, this thread's work on a device is recorded. Storages take what is recorded for done: so that it is
/// as they say, the stream that replays has waited for all others when it begins, and they for it when it has ended.
class RecordingScope {
 public:
  RecordingScope(int index, Streams& streams) : real_(streams_of(index)) {
    real_.join(here_);
    streams.begin_recording(here_);
    recording = {&streams, index};
  }
  ~RecordingScope() {
    recording = {};
    real_.fork(here_);
  }
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  Streams& real_;
  const int here_ = memory::current_scope.stream;
};

}  // namespace

std::unique_ptr<Recording> record(int index, const std::function<void()>& work) {
  Streams streams;
  {
    const RecordingScope scope(index, streams);
    work();
  }
  return std::make_unique<Graph>(Device::cuda(index), GraphHandle(streams.end_recording()));
}

}  // namespace bytetape::cuda
