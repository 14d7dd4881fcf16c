#pragma once
// The last block of a launch finishes what all of them left, where a second launch would.
#include "bytetape/core/device.h"

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
    __threadfence();                                         // what the block wrote, before it has arrived
    is_last = atomicInc(counter, blocks - 1) == blocks - 1;  // the last one sets it back to 0
    __threadfence();                                         // what others wrote, after they have
  }
  __syncthreads();
  return is_last;
}

}  // namespace bytetape::cuda
