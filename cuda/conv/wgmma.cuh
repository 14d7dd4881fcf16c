#pragma once
#include <cstdint>

/// Hopper's asynchronous matrix products (sm_90a). A warpgroup of four warps adds a (64 x 8) b (8 x n), f32 rounded to
/// TF32, to its sums. The layout is that of PTX's `wgmma.mma_async`: warp w holds rows 16 w to 16 w + 15 of a as in
/// mma.cuh. Its thread 4 r + t holds
///
///     of sum  columns 8 j + 2 t and 8 j + 2 t + 1 of row 16 w + r, then of row 16 w + r + 8, for each j
///
/// b is in shared memory in pieces of 128 bytes: 4 rows of 8 columns, column by column.
namespace bytetape::cuda {

/// Returns the descriptor of b. The steps are in bytes: from a piece to the one of the other rows, and to the one of
/// the next 8 columns. Adding n to the descriptor moves b by 16 n bytes.
__device__ inline std::uint64_t wgmma_operand(const void* shared, int rows_step, int columns_step) {
  const auto address = static_cast<std::uint64_t>(__cvta_generic_to_shared(shared));
  return (address & 0x3ffff) >> 4 | static_cast<std::uint64_t>(rows_step >> 4) << 16 |
         static_cast<std::uint64_t>(columns_step >> 4) << 32;
}

/// Makes the registers that the warpgroup's threads wrote visible to the following products.
__device__ inline void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Commits a batch of products.
__device__ inline void wgmma_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits for all batches except the last `pending`. Then their sums are complete, and their inputs may be overwritten.
template <int pending>
__device__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
/// Makes this thread's writes to shared memory visible to products after the next barrier.
__device__ inline void publish_to_wgmma() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ inline void wgmma(float (&d)[32], const std::uint32_t (&a)[4], std::uint64_t b) {
  asm volatile(
      "{.reg .pred adds; setp.eq.u32 adds, 0, 0; wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {%0, %1, %2, %3, "
      "%4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, "
      "%27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, adds, 1, 1;}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void wgmma(float (&d)[16], const std::uint32_t (&a)[4], std::uint64_t b) {
  asm volatile(
      "{.reg .pred adds; setp.eq.u32 adds, 0, 0; wgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 {%0, %1, %2, %3, "
      "%4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19}, %20, adds, 1, 1;}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

}  // namespace bytetape::cuda
