#include "bytetape/cuda/runtime/arrivals.cuh"

#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/per_device.h"

namespace bytetape::cuda {
namespace {

// The counters of each stream of a device, as device variables. They begin at 0.
__device__ unsigned counters[memory::stream_count * arrival_counters];

}  // namespace

unsigned* arrivals(Device device) {
  unsigned* const all = once_per_device(device.index, [device] {
    stream_of(device);  // makes the device current
    void* address = nullptr;
    check(cudaGetSymbolAddress(&address, counters));
    return static_cast<unsigned*>(address);
  });
  return all + memory::ambient.scope.stream * arrival_counters;
}

}  // namespace bytetape::cuda
