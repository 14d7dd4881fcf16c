#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "bytetape/core/device/device.h"

/// What every kernel's launch needs.
namespace bytetape::cuda {

/// Throws Error with the running op and what the driver says, unless ok. Of what a kernel did to the device, which
/// shows late and lasts, it names the op whose kernel that was, or where that cannot be told those that it may be.
void check(cudaError_t status);
/// What the last launch of this thread was told, or what an earlier kernel did.
inline void check_launch() { check(cudaGetLastError()); }
/// Remembers that the running op gives device number `index` work; stream_of() does it.
void note_launch(int index);
/// All that this thread gave device number `index` has ended well.
void forget_launches(int index);

/// Makes `device` the thread's current one, and gives the stream that the thread's work goes to, in order: the one of
/// its scope, or what records its work.
cudaStream_t stream_of(Device device);
/// Waits for all of a device's streams.
void synchronize_streams(int index);

/// Multiprocessors of a device.
int processors(Device device);
/// Its compute capability: 90 for 9.0.
int capability(Device device);

/// Threads of a block, where nothing speaks for another number.
inline constexpr int block_size = 256;
/// Blocks of block_size threads that cover n, but no more than a few for each processor: the rest is looped over.
unsigned blocks_for(std::int64_t n, Device device);

}  // namespace bytetape::cuda
