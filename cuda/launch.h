#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "bytetape/core/device.h"

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

/// The number of the device that CUDA takes this thread's calls for, and whose errors they return.
inline constinit thread_local int current_device = -1;

/// Makes `device` the thread's current one, and gives the stream that the thread's work goes to, in order: the
/// device's one, or what a StreamScope says.
cudaStream_t stream_of(Device device);

/// A device's stream that is not its own one; null where there is none.
struct OtherStream {
  cudaStream_t stream = nullptr;
  int index = 0;
};
inline constinit thread_local OtherStream current_stream{};
/// While it lives, this thread's work on device number `index` goes to another stream.
class StreamScope {
 public:
  StreamScope(int index, cudaStream_t stream) : previous_(current_stream) { current_stream = {stream, index}; }
  ~StreamScope() { current_stream = previous_; }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  OtherStream previous_;
};
/// Multiprocessors of a device.
int processors(Device device);
/// Its compute capability: 90 for 9.0.
int capability(Device device);

/// Threads of a block, where nothing speaks for another number.
inline constexpr int block_size = 256;
/// Blocks of block_size threads that cover n, but no more than a few for each processor: the rest is looped over.
unsigned blocks_for(std::int64_t n, Device device);

}  // namespace bytetape::cuda
