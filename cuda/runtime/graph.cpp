// Recorded work as a CUDA graph: streams of its own are put into capture mode while the work is given to them.
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/cuda/ambient.h"
#include "bytetape/cuda/runtime/fault.h"
#include "bytetape/cuda/runtime/graph_fills.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/runtime.h"
#include "bytetape/cuda/runtime/streams.h"

namespace bytetape::cuda {
namespace {

struct Destroy {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};
using GraphHandle = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy>;

class Graph final : public DeviceGraph {
 public:
  using Kept = std::vector<std::shared_ptr<const void>>;

  /// `streams`: which the recording used, a bit for each; `kept`: whose kernels it holds.
  Graph(Device device, GraphHandle graph, std::uint32_t streams, Kept kept)
      : device_(device), has_branches_((streams & (streams - 1)) != 0), streams_(streams), kept_(std::move(kept)) {
    fill_by_kernels(graph.get());
    cudaError_t made = cudaGraphInstantiate(&graph_, graph.get(), 0);
    if (made == cudaErrorMemoryAllocation) {  // of the device's, where the allocator's cache may have it all
      memory::allocator(device).empty_cache();
      made = cudaGraphInstantiate(&graph_, graph.get(), 0);
    }
    check(made);
  }
  /// Waits for the last replay: the driver may still read from the graph.
  ~Graph() override {
    if (last_) cudaStreamSynchronize(last_);
    cudaGraphExecDestroy(graph_);
  }
  /// A branch uses what is its stream's alone (counters of arrivals), and leaves what that stream takes for its own.
  void replay() override {
    const std::unique_lock held = hold_faults(device_);  // none is forgotten between the branches' begin and end
    last_ = stream_of(device_);
    Streams& real = streams_of(device_.index);
    const int here = memory::ambient.scope.stream;
    if (has_branches_) real.join(here);
    settled_pending(device_);  // where the graph's steps read it
    check(cudaGraphLaunch(graph_, last_));
    if (!has_branches_) return;
    real.note_waits(here, streams_);  // for what its branches leave
    real.fork(here, streams_);
  }

 private:
  Device device_;
  bool has_branches_;
  std::uint32_t streams_;
  Kept kept_;
  cudaGraphExec_t graph_ = nullptr;
  cudaStream_t last_ = nullptr;
};

/// While it lives, this thread's work on a device is recorded. Storages take what is recorded for done: so that it is
/// as they say, the stream that replays has waited for all others when it begins, and they for it when it has ended.
class RecordingScope {
 public:
  RecordingScope(int index, Streams& streams, Graph::Kept& kept) : real_(streams_of(index)) {
    real_.join(here_);
    streams.begin_recording(here_);
    ambient.recording = {&streams, index, &kept};
  }
  ~RecordingScope() {
    const std::uint32_t streams = ambient.recording.streams->used();
    ambient.recording = {};
    real_.join(here_);
    real_.fork(here_, streams);
  }
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  Streams& real_;
  const int here_ = memory::ambient.scope.stream;
};

}  // namespace

std::unique_ptr<DeviceGraph> record(int index, const std::function<void()>& work) {
  Streams streams;
  Graph::Kept kept;
  {
    const RecordingScope scope(index, streams, kept);
    work();
  }
  GraphHandle graph(streams.end_recording());
  return std::make_unique<Graph>(Device::cuda(index), std::move(graph), streams.used(), std::move(kept));
}

}  // namespace bytetape::cuda
