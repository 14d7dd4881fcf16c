#pragma once
// Kernels that overlap with the kernel before them on the stream (programmatic dependent launch): their blocks start
// while it runs, and then wait for it. Meanwhile they may prefetch memory to the L2 cache, and read what
// may_read_early() allows. Without can_overlap(), they start when it has finished.
//
// Most kernels let the next one start before they wait themselves, so that several are ready. Some wait first (Turn).
// When the next kernel starts, all work before a waiting kernel is done. Only the writes of that kernel and of later
// ones can be pending, and they are listed. After another launch, or a wait for another stream, they are unknown.
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <utility>

#include "bytetape/core/view.h"

namespace bytetape::cuda {

/// Whether kernels overlap, and blocks form clusters (cluster.cuh): the device and the code that runs there are for
/// compute capability 9.0 or later.
bool can_overlap(Device device);

/// Whether the next kernel of launch_overlapping() on this thread may read x before wait_for_earlier_work(): the work
/// that may still run is known, and does not write x. This is so only while work is recorded, as other libraries can
/// add work to other streams. Undefined tensors may always be read.
bool may_read_early(const ConstView& x);
template <class... Views>
bool may_read_early(const ConstView& x, const Views&... more) {
  return may_read_early(x) && may_read_early(more...);
}

/// The geometry of a launch.
struct Launch {
  Device device;
  unsigned blocks;
  dim3 threads;
  std::size_t shared_bytes = 0;
  int cluster = 1;  // blocks of a cluster, along x; 1 without can_overlap()
  /// All tensors that the kernel writes. If none is listed, the kernel after it may read nothing early.
  std::array<const View*, 4> writes = {};
};

/// Whether a kernel waits for earlier work before it lets the next kernel start. launch_overlapping() decides.
struct Turn {
  bool waits_first;
};

/// Notes a launch for may_read_early(), and returns the stream for it and its turn.
std::pair<cudaStream_t, Turn> take_turn(const Launch& l);

}  // namespace bytetape::cuda
