#include "bytetape/cuda/runtime/arrivals.cuh"

#include <array>
#include <mutex>

#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {
namespace {

// Each device has counters for each of its streams, as device variables, which begin at 0.
__device__ unsigned counters[memory::stream_count * arrival_counters];

}  // namespace

unsigned* arrivals(Device device) {
  static std::array<unsigned*, 256> all;
  static std::array<std::once_flag, 256> found;
  std::call_once(found[device.index], [&] {
    stream_of(device);  // makes the device current
    void* address = nullptr;
    check(cudaGetSymbolAddress(&address, counters));
    all[device.index] = static_cast<unsigned*>(address);
  });
  return all[device.index] + memory::ambient.scope.stream * arrival_counters;
}

}  // namespace bytetape::cuda
