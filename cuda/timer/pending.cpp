#include "bytetape/cuda/timer/pending.h"

#include <set>

#include "bytetape/core/device/interop.h"
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
        marks_.push_back({index, event});
      else
        cudaEventDestroy(event);
    }
  }
  if (before >= 0) set_current(before);
  cudaGetLastError();  // a failure of a device is the next op's to report
}

// Another thread may ask whose current device is not one in use. A call of the runtime would give that one a context.
bool PendingWork::is_done() {
  for (; !marks_.empty(); marks_.pop_back()) {
    const auto& [device, event] = marks_.back();
    const CurrentDevice current(Device::cuda(device));
    const OutsideRecording outside;
    if (cudaEventQuery(event) == cudaErrorNotReady) {
      cudaGetLastError();  // not an error, and must not be reported by the next launch
      return false;
    }
    cudaEventDestroy(event);
  }
  return true;
}

void PendingWork::wait() {
  for (const auto& [device, event] : marks_) {
    const CurrentDevice current(Device::cuda(device));
    const OutsideRecording outside;
    cudaEventSynchronize(event);
  }
  clear();
}

void PendingWork::clear() {
  for (const auto& [device, event] : marks_) {
    const CurrentDevice current(Device::cuda(device));
    cudaEventDestroy(event);
  }
  marks_.clear();
}

}  // namespace bytetape::cuda
