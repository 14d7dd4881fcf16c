#pragma once
// Clusters of blocks, which run at the same time and access each other's shared memory. launch_overlapping() launches
// them. Without can_overlap() a cluster is one block, and these functions must not be called.
#include <cstdint>

namespace bytetape::cuda {

/// Arrives at the cluster's barrier. This thread's earlier writes are visible to threads that have waited for it.
__device__ inline void arrive_at_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
/// Arrives at the barrier, to say only that this block has started. Then its shared memory may be accessed.
__device__ inline void announce_to_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}
/// Waits until all threads of the cluster have arrived.
__device__ inline void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}
/// Returns the address of the same variable in the shared memory of another block of the cluster.
template <class T>
__device__ T* of_rank(T* shared, [[maybe_unused]] int rank) {
#if __CUDA_ARCH__ >= 900
  T* there = nullptr;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared), "r"(rank));
  return there;
#else
  return shared;
#endif
}

}  // namespace bytetape::cuda
