#pragma once
// Copies of 16 bytes from global to shared memory that the thread does not wait for. With ordinary loads, the compiler
// keeps few in flight, because it moves loads down to where their values are used.
#include <cstdint>

namespace bytetape::cuda {

/// The elements of a vector of 16 bytes.
template <class T>
inline constexpr int vector_width = 16 / static_cast<int>(sizeof(T));

/// Whether copied bytes stay in the L1 cache, for other threads that copy them.
enum class Cached { no, yes };

/// Starts a copy of 16 bytes, or of zeros if `is_there` is false. Both addresses must be aligned.
template <Cached cached = Cached::no>
__device__ void copy_async(void* shared, const void* from, bool is_there) {
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes = is_there ? 16 : 0;
  if constexpr (cached == Cached::yes)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
/// Waits for this thread's copies. Other threads see them after a barrier.
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace bytetape::cuda
