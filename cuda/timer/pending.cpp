#include "bytetape/cuda/timer/pending.h"

#include <set>

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocators.h"
#include "bytetape/cuda/runtime/interop.h"
#include "bytetape/cuda/runtime/streams.h"

namespace bytetape::cuda {
namespace {

/// The numbers of the devices that have an allocator. Others are not used, and get no context.
std::set<int> devices_in_use() {
  std::set<int> all;
  memory::each_allocator([&](memory::Allocator& a) {
    if (a.device().type == DeviceType::cuda && !a.device().is_meta) all.insert(a.device().index);
  });
  return all;
}

}  // namespace

void PendingWork::mark() {
  clear();
  int before = -1;
  for (const int index : devices_in_use()) {
    if (before < 0) before = set_current(index);
    Streams& streams = streams_of(index);
    const OutsideRecording outside;
    for (int i = 0; i < memory::stream_count; ++i) {
      const cudaStream_t stream = streams.made(i);
      cudaEvent_t event = nullptr;
      if (!stream || cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) continue;
      if (cudaEventRecord(event, stream) == cudaSuccess)
        events_.push_back(event);
      else
        cudaEventDestroy(event);
    }
  }
  if (before >= 0) set_current(before);
  cudaGetLastError();  // a failure of a device is the next op's to report
}

bool PendingWork::is_done() {
  const OutsideRecording outside;
  for (; !events_.empty(); events_.pop_back()) {
    if (cudaEventQuery(events_.back()) == cudaErrorNotReady) {
      cudaGetLastError();  // not an error, and must not be reported by the next launch
      return false;
    }
    cudaEventDestroy(events_.back());
  }
  return true;
}

void PendingWork::wait() {
  const OutsideRecording outside;
  for (const cudaEvent_t event : events_) cudaEventSynchronize(event);
  clear();
}

void PendingWork::clear() {
  for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  events_.clear();
}

}  // namespace bytetape::cuda
