// Slices by index. A thread copies an element of the result, or 16 bytes of a slice if the layout allows that. A third
// operand walks along the indexed dim alone, and finds the slice. Writes to slices sort the index (sorted_runs.cuh).
#include "bytetape/core/kernels/indexing.h"

#include "bytetape/core/visit_bits.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/reduce/sorted_runs.cuh"
#include "bytetape/cuda/runtime/fault.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

/// An index of slices. Valid values are below `bound`.
struct Index {
  const std::int64_t* data;
  std::int64_t size, step, bound;

  Index(const ConstView& v, std::int64_t bound)
      : data(v.as<std::int64_t>()), size(v.shape[0]), step(v.strides[0]), bound(bound) {}
  __device__ std::int64_t operator[](std::int64_t j) const { return data[j * step]; }
  __device__ bool is_slice(std::int64_t i) const { return i >= 0 && i < bound; }
  __device__ std::uint64_t target(std::int64_t j, std::int64_t skipped) const {
    const std::int64_t i = (*this)[j];
    if (!is_slice(i)) return invalid_target(bound);
    return i == skipped ? left_out_target(bound) : static_cast<std::uint64_t>(i);
  }
  /// Reports a fault if element j is the first invalid one.
  __device__ void check(const FaultSlot& faults, std::int64_t j) const {
    const std::int64_t i = (*this)[j];
    if (!is_slice(i))
      leave_if_first(faults, {Fault::Kind::index, i, bound}, j,
                     [this](std::int64_t before) { return !is_slice((*this)[before]); });
  }
};

/// Returns a walk over y's offset, the offset in x's slice 0, and the number of the slice.
Walk<3> walk_over(const View& y, const ConstView& x, int dim) {
  Strides of_slice = x.strides, number = Dims::filled(y.rank(), 0);
  of_slice[dim] = 0;
  number[dim] = 1;
  Walk<3> walk(y.shape, {&y.strides, &of_slice, &number});
  walk.complete();
  return walk;
}

template <class T, class Steps>
__global__ void __launch_bounds__(block_size)
    index_select_kernel(const T* x, std::int64_t slice, Index index, std::int64_t skipped, T* y, Steps steps,
                        FaultSlot faults) {
  for (std::int64_t j = this_thread(); j < index.size; j += all_threads()) index.check(faults, j);
  const auto count = static_cast<std::int64_t>(steps.count);
  for (std::int64_t i = this_thread(); i < count; i += all_threads()) {
    std::int64_t at[3];
    steps.find(static_cast<decltype(steps.count)>(i), at);
    const std::int64_t from = index[at[2]];
    y[at[0]] = index.is_slice(from) && from != skipped ? x[at[1] + from * slice] : T{};
  }
}

/// Changes the walk to words of `lanes` elements. Returns false, and changes nothing, if words would cross a run of y
/// or x.
bool pack(Walk<3>& walk, std::int64_t& slice, int lanes) {
  const int last = walk.shape.size() - 1;
  bool packs = walk.strides[0][last] == 1 && walk.strides[1][last] == 1 && walk.strides[2][last] == 0 &&
               walk.shape[last] % lanes == 0 && slice % lanes == 0;
  for (int d = 0; d < last; ++d) packs = packs && walk.strides[0][d] % lanes == 0 && walk.strides[1][d] % lanes == 0;
  if (!packs) return false;
  walk.shape[last] /= lanes;
  for (int d = 0; d < last; ++d)
    for (const std::size_t k : {0, 1}) walk.strides[k][d] /= lanes;
  slice /= lanes;
  return true;
}

template <class T>
void launch_select(const IndexSelectArgs& a, const Walk<3>& walk, std::int64_t slice) {
  const Index index(a.index, a.x.shape[a.dim]);
  with_steps(walk, [&](const auto& steps) {
    const std::int64_t work = std::max(static_cast<std::int64_t>(steps.count), index.size);
    index_select_kernel<<<blocks_for(work, a.y.device), block_size, 0, stream_of(a.y.device)>>>(
        a.x.as<T>(), slice, index, a.skipped, a.y.as<T>(), steps, FaultSlot(a.y.device));
  });
  check_launch();
}

void index_select(const IndexSelectArgs& a) {
  if (a.index.shape[0] == 0) return;
  Walk<3> walk = walk_over(a.y, a.x, a.dim);
  std::int64_t slice = a.x.strides[a.dim];
  visit_bits(a.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int lanes = 16 / sizeof(T);
    if (are_aligned({&a.x, &a.y}) && pack(walk, slice, lanes))
      launch_select<uint4>(a, walk, slice);
    else
      launch_select<T>(a, walk, slice);
  });
}

/// Stores each index as a target and its position as the place.
__global__ void __launch_bounds__(block_size) places_kernel(Index index, std::int64_t skipped, Pairs pairs) {
  for (std::int64_t j = this_thread(); j < index.size; j += all_threads()) {
    pairs.keys[j] = index.target(j, skipped);
    pairs.values[j] = j;
  }
}

/// The same, with a fault for the first invalid index.
__global__ void __launch_bounds__(block_size)
    checked_places_kernel(Index index, std::int64_t skipped, Pairs pairs, FaultSlot faults) {
  for (std::int64_t j = this_thread(); j < index.size; j += all_threads()) {
    index.check(faults, j);
    pairs.keys[j] = index.target(j, skipped);
    pairs.values[j] = j;
  }
}

void index_sum(const IndexSumArgs& a, const Plan&, Workspace ws) {
  if (a.y.numel() == 0) return;
  const RunsScratch layout = scratch_of(a);
  const Index index(a.index, a.y.shape[a.dim]);
  const cudaStream_t stream = stream_of(a.y.device);
  const SortedRuns runs = sort_runs(layout, index.size, index.bound, ws, stream, [&](const Pairs& pairs) {
    places_kernel<<<blocks_for(index.size, a.y.device), block_size, 0, stream>>>(index, a.skipped, pairs);
  });
  sum_runs(runs, a.x, a.dim, a.y, reinterpret_cast<std::int64_t*>(static_cast<char*>(ws.data) + layout.starts));
}

template <bool adds>
void index_write(const IndexWriteArgs& a, const Plan&, Workspace ws) {
  if (a.index.shape[0] == 0) return;
  const Index index(a.index, a.y.shape[a.dim]);
  const cudaStream_t stream = stream_of(a.y.device);
  const SortedRuns runs = sort_runs(scratch_of(a, adds), index.size, index.bound, ws, stream, [&](const Pairs& pairs) {
    checked_places_kernel<<<blocks_for(index.size, a.y.device), block_size, 0, stream>>>(index, a.skipped, pairs,
                                                                                         FaultSlot(a.y.device));
  });
  if (a.y.numel() == 0) return;
  (adds ? add_runs : copy_runs)(runs, a.x, a.dim, a.y, true);
}

__global__ void __launch_bounds__(block_size) flat_index_kernel(const std::int64_t* base, std::int64_t base_step,
                                                                Index index, std::int64_t* y, FaultSlot faults) {
  const std::int64_t size = index.bound;
  const auto is_valid = [&](std::int64_t i) { return i >= -size && i < size; };
  for (std::int64_t j = this_thread(); j < index.size; j += all_threads()) {
    const std::int64_t i = index[j], before = base ? base[j * base_step] * size : 0;
    if (!is_valid(i))
      leave_if_first(faults, {Fault::Kind::from_end, i, size}, j,
                     [&](std::int64_t earlier) { return !is_valid(index[earlier]); });
    y[j] = before + (is_valid(i) ? i + (i < 0 ? size : 0) : 0);
  }
}

void flat_index(const FlatIndexArgs& a) {
  if (a.y.numel() == 0) return;
  const Index index(a.index, a.size);
  const bool has_base = a.base.defined();
  flat_index_kernel<<<blocks_for(index.size, a.y.device), block_size, 0, stream_of(a.y.device)>>>(
      has_base ? a.base.as<std::int64_t>() : nullptr, has_base ? a.base.strides[0] : 0, index, a.y.as<std::int64_t>(),
      FaultSlot(a.y.device));
  check_launch();
}

__global__ void __launch_bounds__(block_size) one_hot_kernel(Index index, std::int64_t* y, FaultSlot faults) {
  for (std::int64_t i = this_thread(); i < index.size * index.bound; i += all_threads()) {
    const std::int64_t row = i / index.bound, column = i - row * index.bound;
    y[i] = index[row] == column;
    if (column == 0) index.check(faults, row);
  }
}

void one_hot(const ConstView& x, const View& y) {
  if (y.numel() == 0) return;
  const Index index(x, y.shape[1]);
  one_hot_kernel<<<blocks_for(y.numel(), y.device), block_size, 0, stream_of(y.device)>>>(index, y.as<std::int64_t>(),
                                                                                          FaultSlot(y.device));
  check_launch();
}

}  // namespace

const IndexingKernels& indexing_kernels() {
  static const IndexingKernels all{
      .index_select = index_select,
      .index_sum = {indexing_plans().index_sum.plan, index_sum},
      .index_copy = {indexing_plans().index_copy.plan, index_write<false>},
      .index_add = {indexing_plans().index_add.plan, index_write<true>},
      .flat_index = flat_index,
      .one_hot = one_hot,
  };
  return all;
}

}  // namespace bytetape::cuda
