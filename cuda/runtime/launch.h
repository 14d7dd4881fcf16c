#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "bytetape/core/device/device.h"

/// Functions for launching kernels.
namespace bytetape::cuda {

/// Checks a status of the CUDA runtime.
/// Throws Error, with the running op and the driver's message, if `status` is a failure. A kernel's failure appears
/// later and lasts. Then the message names the op that launched the kernel, or the ops that may have.
void check(cudaError_t status);
/// Checks the last launch of this thread, and whether an earlier kernel failed.
inline void check_launch() { check(cudaGetLastError()); }
/// Notes that the running op launches work on device number `index`. stream_of() calls it.
void note_launch(int index);
/// Forgets this thread's launches on device number `index`, as all of them have succeeded.
void forget_launches(int index);

/// Makes `device` the thread's current one. Returns the stream for the thread's work: the one of its scope, or the one
/// that records its work.
cudaStream_t stream_of(Device device);
/// Waits on the host for all streams of a device.
void synchronize_streams(int index);

/// The number of multiprocessors of a device.
int processors(Device device);
/// The compute capability of a device: 90 for 9.0.
int capability(Device device);

/// The default number of threads in a block.
inline constexpr int block_size = 256;
/// The number of blocks of block_size threads that cover n elements, limited to a few for each multiprocessor. Kernels
/// loop over the rest.
unsigned blocks_for(std::int64_t n, Device device);

}  // namespace bytetape::cuda
