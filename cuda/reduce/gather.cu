// Elements by index. A thread handles an element of the index, in row-major order. Only elements of one line along dim
// can write to the same place. A scatter compares the elements of short lines, and sorts those of long ones by their
// offsets in y (sorted_runs.cuh).
#include "bytetape/core/kernels/gather.h"

#include "bytetape/core/visit.h"
#include "bytetape/core/visit_bits.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/reduce/sorted_runs.cuh"
#include "bytetape/cuda/runtime/fault.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

/// An index of elements along a dim of size `bound`, and the offsets that belong to its elements.
template <class Steps>
struct ElementIndex {
  const std::int64_t* data;
  std::int64_t bound;
  Steps steps;  // by element in row-major order: the offset in the index, the position in its line, offsets of others

  static constexpr int operands = std::extent_v<decltype(Steps::first)>;

  __device__ bool is_valid(std::int64_t i) const { return i >= 0 && i < bound; }
  __device__ void find(std::int64_t element, std::int64_t (&at)[operands]) const {
    steps.find(static_cast<decltype(steps.count)>(element), at);
  }
  /// Reports a fault if this element, whose index is i, is the first invalid one.
  __device__ void check(const FaultSlot& faults, std::int64_t element, std::int64_t i) const {
    if (!is_valid(i))
      leave_if_first(faults, {Fault::Kind::index, i, bound}, element, [this](std::int64_t before) {
        std::int64_t at[operands];
        find(before, at);
        return !is_valid(data[at[0]]);
      });
  }
};

/// Returns the strides of v, which is indexed along dim: 0 there.
Strides base_of(const ConstView& v, int dim) {
  Strides strides = v.is_constant() ? Dims::filled(v.rank(), 0) : v.strides;
  strides[dim] = 0;
  return strides;
}

/// Calls f(index) with the index and the offsets of its elements in the operands.
template <std::size_t K, class F>
void with_index(const ConstView& index, int dim, std::int64_t bound, const std::array<const Strides*, K>& operands,
                const F& f) {
  Walk<K + 2> walk;
  for (int d = 0; d < index.rank(); ++d) {
    std::array<std::int64_t, K + 2> steps{index.strides[d], d == dim};
    for (std::size_t k = 0; k < K; ++k) steps[k + 2] = (*operands[k])[d];
    walk.add(index.shape[d], steps);
  }
  walk.complete();
  with_steps(walk, [&](const auto& steps) {
    f(ElementIndex<std::decay_t<decltype(steps)>>{index.as<std::int64_t>(), bound, steps});
  });
}

template <class T, class I>
__global__ void __launch_bounds__(block_size)
    gather_kernel(const T* x, std::int64_t x_step, I index, T* y, FaultSlot faults) {
  const auto count = static_cast<std::int64_t>(index.steps.count);
  for (std::int64_t element = this_thread(); element < count; element += all_threads()) {
    std::int64_t at[I::operands];
    index.find(element, at);
    const std::int64_t i = index.data[at[0]];
    index.check(faults, element, i);
    y[element] = index.is_valid(i) ? x[at[2] + i * x_step] : T{};
  }
}

void gather(const GatherArgs& a) {
  if (a.index.numel() == 0) return;
  const Strides base = base_of(a.x, a.dim);
  const std::array<const Strides*, 1> operands{&base};
  with_index(a.index, a.dim, a.x.shape[a.dim], operands, [&](const auto& index) {
    visit_bits(a.y.dtype, [&](auto zero) {
      using T = decltype(zero);
      gather_kernel<<<blocks_for(a.index.numel(), a.y.device), block_size, 0, stream_of(a.y.device)>>>(
          a.x.as<T>(), a.x.strides[a.dim], index, a.y.as<T>(), FaultSlot(a.y.device));
    });
  });
  check_launch();
}

/// Writes the elements of short lines of `length`. Of those with one index, the first thread adds all, or the last one
/// copies its own.
template <bool adds, class T, class I>
__global__ void __launch_bounds__(block_size)
    scatter_line_kernel(Slices<T> x, I index, std::int64_t index_step, std::int64_t length, T* y, std::int64_t y_step,
                        FaultSlot faults) {
  const auto count = static_cast<std::int64_t>(index.steps.count);
  for (std::int64_t element = this_thread(); element < count; element += all_threads()) {
    std::int64_t at[I::operands];
    index.find(element, at);
    const std::int64_t i = index.data[at[0]], place = at[1];
    index.check(faults, element, i);
    if (!index.is_valid(i)) continue;
    const auto repeats = [&](std::int64_t j) { return index.data[at[0] + (j - place) * index_step] == i; };
    bool is_mine = true;
    for (std::int64_t j = adds ? 0 : place + 1; is_mine && j < (adds ? place : length); ++j) is_mine = !repeats(j);
    if (!is_mine) continue;
    T* const to = y + at[2] + i * y_step;
    if constexpr (adds) {
      compute_t<T> sum = widened(*to);
      for (std::int64_t j = place; j < length; ++j)
        if (repeats(j)) sum += widened(x.at(at[3], j - place));
      *to = narrowed<T>(sum);
    } else {
      *to = x.at(at[3], 0);
    }
  }
}

/// Stores each element's offsets in y, which has `extent` elements, and in x.
template <class I>
__global__ void __launch_bounds__(block_size)
    offsets_kernel(I index, std::int64_t y_step, std::int64_t extent, Pairs pairs, FaultSlot faults) {
  const auto count = static_cast<std::int64_t>(index.steps.count);
  for (std::int64_t element = this_thread(); element < count; element += all_threads()) {
    std::int64_t at[I::operands];
    index.find(element, at);
    const std::int64_t i = index.data[at[0]];
    index.check(faults, element, i);
    pairs.keys[element] = index.is_valid(i) ? static_cast<std::uint64_t>(at[2] + i * y_step) : invalid_target(extent);
    pairs.values[element] = at[3];
  }
}

/// Returns a view of one dim, in which elements have their offsets in v as numbers.
template <class V>
V by_offset(V v, std::int64_t size) {
  v.shape = {size};
  v.strides = {v.is_constant() ? 0 : 1};
  return v;
}

/// The number of elements from the first to the last in memory.
std::int64_t extent_of(const ConstView& v) {
  if (v.numel() == 0) return 0;
  std::int64_t last = 0;
  for (int d = 0; d < v.rank(); ++d) last += (v.shape[d] - 1) * v.strides[d];
  return last + 1;
}

template <bool adds>
void scatter(const ScatterArgs& a, const Plan&, Workspace ws) {
  const std::int64_t count = a.index.numel();
  if (count == 0) return;
  const cudaStream_t stream = stream_of(a.y.device);
  const unsigned blocks = blocks_for(count, a.y.device);
  const Strides y_base = base_of(a.y, a.dim), x_strides = a.x.is_constant() ? Dims::filled(a.x.rank(), 0) : a.x.strides;
  const std::array<const Strides*, 2> operands{&y_base, &x_strides};
  const std::int64_t y_step = a.y.strides[a.dim], extent = extent_of(a.y);
  with_index(a.index, a.dim, a.y.shape[a.dim], operands, [&](const auto& index) {
    if (is_sorted(a)) {
      const SortedRuns runs = sort_runs(scratch_of(a, adds), count, extent, ws, stream, [&](const Pairs& pairs) {
        offsets_kernel<<<blocks, block_size, 0, stream>>>(index, y_step, extent, pairs, FaultSlot(a.y.device));
      });
      if (extent == 0) return;
      (adds ? add_runs : copy_runs)(runs, by_offset(a.x, count), 0, by_offset(a.y, extent), a.keeps_on_fault);
      return;
    }
    const auto launch = [&](auto zero) {
      using T = decltype(zero);
      scatter_line_kernel<adds><<<blocks, block_size, 0, stream>>>(Slices<T>(a.x, a.dim), index, a.index.strides[a.dim],
                                                                   a.index.shape[a.dim], a.y.as<T>(), y_step,
                                                                   FaultSlot(a.y.device));
    };
    if constexpr (adds)
      visit_wrapping(a.y.dtype, launch);
    else
      visit_bits(a.y.dtype, launch);
    check_launch();
  });
}

}  // namespace

const GatherKernels& gather_kernels() {
  static const GatherKernels all{
      .gather = gather,
      .scatter = {gather_plans().scatter.plan, scatter<false>},
      .scatter_add = {gather_plans().scatter_add.plan, scatter<true>},
  };
  return all;
}

}  // namespace bytetape::cuda
