// Records work as a CUDA graph. The work runs on separate streams in capture mode.
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
#include "bytetape/cuda/runtime/lost.h"
#include "bytetape/cuda/runtime/runtime.h"
#include "bytetape/cuda/runtime/streams.h"
#include "bytetape/cuda/timer/timer.h"

namespace bytetape::cuda {
namespace {

struct Destroy {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
  void operator()(cudaGraphExec_t executable) const { cudaGraphExecDestroy(executable); }
};
using GraphHandle = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy>;
using Executable = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy>;

/// Returns null if device memory ran out.
Executable instantiated(cudaGraph_t graph) {
  cudaGraphExec_t made = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&made, graph, 0);
  if (status != cudaErrorMemoryAllocation) {
    check(status);
    return Executable(made);
  }
  cudaGetLastError();  // else the next launch would report it
  return nullptr;
}

class Graph final : public DeviceGraph {
 public:
  using Kept = std::vector<std::shared_ptr<const void>>;

  /// `streams` has a bit for each stream that the recording used. `kept` owns objects whose kernels the graph contains.
  Graph(Device device, GraphHandle graph, std::uint32_t streams, Kept kept)
      : device_(device),
        has_branches_((streams & (streams - 1)) != 0),
        streams_(streams),
        kept_(std::move(kept)),
        graph_(std::move(graph)) {
    fill_by_kernels(graph_.get());
    executable_ = instantiated(graph_.get());
    if (!executable_) {  // the memory may be in the allocator's cache
      memory::allocator(device_).empty_cache();
      executable_ = instantiated(graph_.get());
    }
    if (!executable_) check(cudaErrorMemoryAllocation);
    if (is_timing_steps()) timed_ = instantiated(graph_.get());
  }
  /// Waits for the last replay, because the driver may still read the graph.
  ~Graph() override {
    if (last_) cudaStreamSynchronize(last_);
  }
  /// A branch uses resources of its stream, such as arrival counters, and leaves faults for it. So a graph with
  /// branches waits for all streams, and the streams of its branches wait for it.
  void replay() override {
    throw_if_lost(device_.index);  // the graph may have collectives of a connection that has ended
    const std::unique_lock held = hold_faults(device_);  // no fault is forgotten between the branches' begin and end
    last_ = stream_of(device_);
    Streams& real = streams_of(device_.index);
    const int here = memory::ambient.scope.stream;
    if (has_branches_) real.join(here);
    settled_pending(device_);  // where the graph's steps read it
    launch();
    if (!has_branches_) return;
    real.note_waits(here, streams_);  // takes over faults of the branches
    real.fork(here, streams_);
  }

 private:
  /// Timed steps have their own executable: once CUPTI has timed one, each launch of it writes times, and those of
  /// untimed steps would replace the times of a timed one before they are taken. If there is no memory for another
  /// executable, the host waits, and the times are taken before the next step unless another stream still works.
  void launch() {
    if (!times_launches()) return check(cudaGraphLaunch(executable_.get(), last_));
    if (!timed_) timed_ = instantiated(graph_.get());
    check(cudaGraphLaunch(timed_ ? timed_.get() : executable_.get(), last_));
    if (!timed_) check(cudaStreamSynchronize(last_));
  }

  Device device_;
  bool has_branches_;
  std::uint32_t streams_;
  Kept kept_;
  GraphHandle graph_;
  Executable executable_, timed_;  // timed_ is null without device times
  cudaStream_t last_ = nullptr;
};

/// Records this thread's work on a device while it lives. Storages treat recorded work as done. So that this is true,
/// the stream that replays first waits for all other streams, and they wait for it afterwards.
class RecordingScope {
 public:
  RecordingScope(int index, Streams& streams, Graph::Kept& kept) : real_(streams_of(index)) {
    real_.join(here_);
    streams.begin_recording(here_);
    ambient.recording = {&streams, index, &kept};
    ambient.overlapping = {};
  }
  ~RecordingScope() {
    const std::uint32_t streams = ambient.recording.streams->used();
    ambient.recording = {};
    ambient.overlapping = {};
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
