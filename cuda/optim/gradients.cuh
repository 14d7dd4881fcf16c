#pragma once
#include <type_traits>

#include "bytetape/core/visit.h"
#include "bytetape/cuda/alignment.h"
#include "bytetape/cuda/optim/gradients.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/slots.cuh"

namespace bytetape::cuda {

/// Calls f(slot, begin, size) for each chunk of this block: elements `begin` to `begin + size` of the slot.
template <int most, class Slot, class F>
__device__ void for_each_chunk(const GradientTable<most, Slot>& table, F&& f) {
  for (std::uint32_t c = blockIdx.x; c < table.chunks; c += gridDim.x) {
    const int at = slot_of(table.first, table.count, c);
    const std::int64_t begin = (c - table.first[at]) * table.chunk;
    f(table.slots[at], begin, std::min(table.chunk, table.slots[at].size - begin));
  }
}

/// Calls f(pointer, n) for the elements of this block's chunks, n at a time, with n a std::integral_constant. Aligned
/// elements come as vectors of 16 bytes, others one by one.
template <class T, int most, class F>
__device__ void for_each_vector(const GradientTable<most>& table, F&& f) {
  constexpr int lanes = 16 / sizeof(T);
  for_each_chunk(table, [&](const GradientSlot& slot, std::int64_t begin, std::int64_t size) {
    T* data = static_cast<T*>(slot.data) + begin;
    const std::int64_t whole = is_aligned(data) ? size / lanes * lanes : 0;
    for (std::int64_t i = threadIdx.x * lanes; i < whole; i += block_size * lanes)
      f(data + i, std::integral_constant<int, lanes>());
    for (std::int64_t i = whole + threadIdx.x; i < size; i += block_size) f(data + i, std::integral_constant<int, 1>());
  });
}

/// Calls launch(table, zero) with the smallest type of table that fits, because tables are copied at each launch.
/// `zero` has the type of the elements.
template <class Slot, class F>
void with_table(const LargestGradientTable<Slot>& table, F&& launch) {
  visit_floating(table.dtype, [&](auto zero) {
    if (table.count <= 16)
      launch(GradientTable<16, Slot>(table), zero);
    else if (table.count <= 128)
      launch(GradientTable<128, Slot>(table), zero);
    else
      launch(table, zero);
  });
  check_launch();
}

}  // namespace bytetape::cuda
