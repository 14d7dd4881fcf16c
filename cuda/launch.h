#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "bytetape/core/device.h"

/// What every kernel's launch needs.
namespace bytetape::cuda {

/// Throws Error with the running op and what the driver says, unless ok.
void check(cudaError_t status);
/// What the last launch of this thread was told; a fault of an earlier kernel shows here too, and lasts.
inline void check_launch() { check(cudaGetLastError()); }

/// Makes `device` the thread's current one, and gives the stream that all of its work goes to, in order.
cudaStream_t stream_of(Device device);
/// Multiprocessors of a device.
int processors(Device device);
/// Its compute capability: 90 for 9.0.
int capability(Device device);

/// Threads of a block, where nothing speaks for another number.
inline constexpr int block_size = 256;
/// Blocks of block_size threads that cover n, but no more than a few for each processor: the rest is looped over.
unsigned blocks_for(std::int64_t n, Device device);

}  // namespace bytetape::cuda
