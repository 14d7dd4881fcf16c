#pragma once
// The last block of a launch finishes what all of them left, where a second launch would.
#include "bytetape/core/device/device.h"

namespace bytetape::cuda {

/// Counters that one launch may use.
inline constexpr unsigned arrival_counters = 512;
/// Those of the stream that the thread's work goes to, on the device: each is 0 between launches.
unsigned* arrivals(Device device);

/// True in the last of `blocks` blocks that come here with the same counter: it sees what the others wrote before.
/// Every thread of the block calls this.
__device__ inline bool is_last_to_arrive(unsigned* counter, unsigned blocks) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    unsigned before = 0;  // the last one sets the counter back to 0
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(counter), "r"(blocks - 1)
                 : "memory");
    is_last = before == blocks - 1;
  }
  __syncthreads();
  return is_last;
}

}  // namespace bytetape::cuda
