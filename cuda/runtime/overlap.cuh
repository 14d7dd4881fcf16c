#pragma once
// Kernels that overlap (overlap.h), and their launch.
#include <type_traits>

#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/overlap.h"

namespace bytetape::cuda {

/// Waits until the work before this kernel is done and visible, and lets the next kernel start if it overlaps. A kernel
/// of launch_overlapping() calls this before it writes memory, and before it reads memory unless may_read_early().
__device__ inline void wait_for_earlier_work([[maybe_unused]] Turn turn) {
#if __CUDA_ARCH__ >= 900
  if (!turn.waits_first) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (turn.waits_first) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Starts to load the 128 bytes at an address to the L2 cache. A kernel may do so before it waits, as nothing is read:
/// L2 has what earlier kernels write.
__device__ inline void prefetch_to_l2(const void* from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }

/// The same, to the multiprocessor's L1 cache. It may keep what is read too early, so a kernel waits first.
__device__ inline void prefetch_to_l1(const void* from) { asm volatile("prefetch.global.L1 [%0];" ::"l"(from)); }

/// Launches a kernel that calls wait_for_earlier_work(), on the thread's stream.
template <class... Parameters>
void launch_overlapping(const Launch& l, void (*kernel)(Turn, Parameters...),
                        const std::type_identity_t<Parameters>&... arguments) {
  const auto [stream, turn] = take_turn(l);
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config{};
  config.gridDim = l.blocks;
  config.blockDim = l.threads;
  config.dynamicSmemBytes = l.shared_bytes;
  config.stream = stream;
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
  check(cudaLaunchKernelEx(&config, kernel, turn, arguments...));
}

}  // namespace bytetape::cuda
