#pragma once
// Kernels that overlap with the kernel before them on the stream (programmatic dependent launch): their blocks start
// while it finishes, and then wait for it. Meanwhile they may prefetch weights. Without can_overlap(), they start when
// it has finished.
#include <type_traits>

#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {

/// Whether kernels overlap, and blocks form clusters (cluster.cuh): the device and the code that runs there are for
/// compute capability 9.0 or later. The device must be current.
bool can_overlap(Device device);

/// Lets the next kernel start if it overlaps, and waits until the work before this one is done and visible. A kernel of
/// launch_overlapping() calls this before it reads or writes memory.
__device__ inline void wait_for_earlier_work() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Starts to load the 128 bytes at an address to the L2 cache. A kernel may do so before it waits, as nothing is read:
/// L2 has what earlier kernels write.
__device__ inline void prefetch_to_l2(const void* from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }

/// The same, to the multiprocessor's L1 cache. It may keep what is read too early, so a kernel waits first.
__device__ inline void prefetch_to_l1(const void* from) { asm volatile("prefetch.global.L1 [%0];" ::"l"(from)); }

/// The geometry of a launch.
struct Launch {
  Device device;
  unsigned blocks;
  dim3 threads;
  std::size_t shared_bytes = 0;
  int cluster = 1;  // blocks of a cluster, along x; 1 without can_overlap()
};

/// Launches a kernel that begins with wait_for_earlier_work(), on the thread's stream.
template <class... Parameters>
void launch_overlapping(const Launch& l, void (*kernel)(Parameters...),
                        const std::type_identity_t<Parameters>&... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config{};
  config.gridDim = l.blocks;
  config.blockDim = l.threads;
  config.dynamicSmemBytes = l.shared_bytes;
  config.stream = stream_of(l.device);
  config.attrs = attributes;
  if (can_overlap(l.device)) {
    cudaLaunchAttribute& overlap = attributes[config.numAttrs++];
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
  }
  if (l.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(l.cluster);
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  }
  check(cudaLaunchKernelEx(&config, kernel, arguments...));
}

}  // namespace bytetape::cuda
