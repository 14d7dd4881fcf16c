// Copies many tensors in one launch, or widens the gradients of many leaves.
#include "bytetape/cuda/optim/widen.h"

#include "bytetape/cuda/optim/gradients.cuh"
#include "bytetape/cuda/pointwise/convert.cuh"

namespace bytetape::cuda {
namespace {

struct WidenSlot {
  const void* from;
  float* to;
  std::int64_t size;
};
struct CopySlot {
  const void* from;
  void* to;
  std::int64_t size;
};

constexpr int lanes = 4;  // elements of a vector, which has 16 bytes in f32

/// Widens `size` elements, a multiple of `lanes`. A warp stores adjacent vectors.
template <class T>
__device__ void widen_vectors(const T* from, float* to, int size) {
  constexpr int step = block_size * lanes, at_once = 4;
  for (int first = threadIdx.x * lanes; first < size; first += at_once * step) {
    Packed<T, lanes> narrow[at_once];
#pragma unroll
    for (int u = 0; u < at_once; ++u) narrow[u] = load<lanes>(from + min(first + u * step, size - lanes));
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      Packed<float, lanes> wide;
#pragma unroll
      for (int k = 0; k < lanes; ++k) wide.values[k] = widened(narrow[u].values[k]);
      if (first + u * step < size) wide.store(to + first + u * step);
    }
  }
}

template <class T, int most>
__global__ void __launch_bounds__(block_size)
    widen_kernel(const __grid_constant__ GradientTable<most, WidenSlot> table) {
  for_each_chunk(table, [&](const WidenSlot& slot, std::int64_t begin, std::int64_t size) {
    const T* from = static_cast<const T*>(slot.from) + begin;
    float* to = slot.to + begin;
    const std::int64_t whole = is_aligned(from, lanes * sizeof(T)) & is_aligned(to) ? size / lanes * lanes : 0;
    widen_vectors(from, to, static_cast<int>(whole));
    for (std::int64_t i = whole + threadIdx.x; i < size; i += block_size) to[i] = widened(from[i]);
  });
}

template <class T, int most>
__global__ void __launch_bounds__(block_size) copy_kernel(const __grid_constant__ GradientTable<most, CopySlot> table) {
  constexpr int packed = 16 / sizeof(T);
  for_each_chunk(table, [&](const CopySlot& slot, std::int64_t begin, std::int64_t size) {
    const T* from = static_cast<const T*>(slot.from) + begin;
    T* to = static_cast<T*>(slot.to) + begin;
    const std::int64_t whole = is_aligned(from) & is_aligned(to) ? size / packed * packed : 0;
    for (std::int64_t i = threadIdx.x * packed; i < whole; i += block_size * packed)
      load<packed>(from + i).store(to + i);
    for (std::int64_t i = whole + threadIdx.x; i < size; i += block_size) to[i] = from[i];
  });
}

}  // namespace

void copy_all(std::span<const ConstView> from, std::span<const View> to) {
  if (to.empty()) return;
  const cudaStream_t stream = stream_of(to[0].device);
  const auto slot = [&](std::size_t i) { return CopySlot{from[i].data(), to[i].data(), to[i].numel()}; };
  for_each_table_of<CopySlot>(from, slot, [&](const auto& all) {
    with_table(all, [&](const auto& table, auto zero) {
      copy_kernel<decltype(zero)><<<table.blocks(), block_size, 0, stream>>>(table);
    });
  });
}

void widen_all(std::span<const ConstView> from, std::span<const View> to) {
  if (to.empty()) return;
  const cudaStream_t stream = stream_of(to[0].device);
  const auto slot = [&](std::size_t i) { return WidenSlot{from[i].data(), to[i].as<float>(), to[i].numel()}; };
  for_each_table_of<WidenSlot>(from, slot, [&](const auto& all) {
    with_table(all, [&](const auto& table, auto zero) {
      using T = decltype(zero);
      if constexpr (sizeof(T) == 2) widen_kernel<T><<<table.chunks, block_size, 0, stream>>>(table);
    });
  });
}

}  // namespace bytetape::cuda
