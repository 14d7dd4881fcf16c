#pragma once
// Lets the last block of a launch combine the results of all blocks, instead of a second launch.
#include "bytetape/core/device/device.h"

namespace bytetape::cuda {

/// The number of counters that a launch may use.
inline constexpr unsigned arrival_counters = 512;
/// The counters of the thread's stream on the device. Each is 0 between launches.
unsigned* arrivals(Device device);

/// Returns true in the last of `blocks` blocks that call this with the same counter. That block sees what the others
/// wrote before. Every thread of a block must call this.
__device__ inline bool is_last_to_arrive(unsigned* counter, unsigned blocks) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    unsigned before = 0;  // the instruction resets the counter to 0 after the last block
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
