// Slices by index. A thread copies an element of the result, or 16 bytes of a slice if the layout allows that. A third
// operand walks along the indexed dim alone, and finds the slice. If an index repeats, one thread adds its slices in
// their order, for which the positions are sorted. Without atomics, every run has the same bits.
#include "bytetape/cuda/reduce/indexing.h"

#include <bit>

#include "bytetape/core/visit.h"
#include "bytetape/core/visit_bits.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/reduce/sort.h"
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
  /// Reports a fault if element j is the first invalid one.
  __device__ void check(const FaultSlot& faults, std::int64_t j) const {
    const std::int64_t i = (*this)[j];
    if (!is_slice(i))
      leave_if_first(faults, {Fault::Kind::index, i, bound}, j,
                     [this](std::int64_t before) { return !is_slice((*this)[before]); });
  }
};

__device__ std::int64_t this_thread() { return std::int64_t{blockIdx.x} * block_size + threadIdx.x; }
__device__ std::int64_t all_threads() { return std::int64_t{gridDim.x} * block_size; }

/// Over y: where its element lies, where that of x's slice 0 does, and the number of its slice.
Walk<3> walk_over(const View& y, const ConstView& x, int dim) {
  Strides of_slice = x.strides, number = Dims::filled(y.rank(), 0);
  of_slice[dim] = 0;
  number[dim] = 1;
  Walk<3> walk(y.shape, {&y.strides, &of_slice, &number});
  walk.complete();
  if (y.numel() == 0) (walk = {}).add(0, {});  // nothing to divide by
  return walk;
}

/// Calls f with the walk as kernels take it.
template <class F>
void with_steps(const Walk<3>& walk, F&& f) {
  if (numel(walk.shape) < detail::most)
    f(detail::Steps<3, std::uint32_t>(walk));
  else
    f(detail::Steps<3, std::int64_t>(walk));
}

template <class T, class Steps>
__global__ void __launch_bounds__(block_size)
    index_select_kernel(const T* x, std::int64_t slice, Index index, T* y, Steps steps, FaultSlot faults) {
  for (std::int64_t j = this_thread(); j < index.size; j += all_threads()) index.check(faults, j);
  const auto count = static_cast<std::int64_t>(steps.count);
  for (std::int64_t i = this_thread(); i < count; i += all_threads()) {
    std::int64_t at[3];
    steps.find(static_cast<decltype(steps.count)>(i), at);
    const std::int64_t from = index[at[2]];
    y[at[0]] = index.is_slice(from) ? x[at[1] + from * slice] : T{};
  }
}

/// Elements taken as words of `lanes`; false, and nothing is changed, where a word would leave a run of y or of x.
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
        a.x.as<T>(), slice, index, a.y.as<T>(), steps, FaultSlot(a.y.device));
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

/// The index as keys, and its places as what goes with them; what is no slice comes behind all.
__global__ void __launch_bounds__(block_size) places_kernel(Index index, Pairs pairs) {
  for (std::int64_t j = this_thread(); j < index.size; j += all_threads()) {
    const std::int64_t i = index[j];
    pairs.keys[j] = static_cast<std::uint64_t>(index.is_slice(i) ? i : index.bound);
    pairs.values[j] = j;
  }
}

/// Where the keys of each slice, and of what is none, begin among the sorted ones.
__global__ void __launch_bounds__(block_size)
    starts_kernel(const std::uint64_t* keys, std::int64_t count, std::int64_t slices, std::int64_t* starts) {
  for (std::int64_t i = this_thread(); i <= slices; i += all_threads()) {
    std::int64_t low = 0, high = count;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (keys[middle] < static_cast<std::uint64_t>(i))
        low = middle + 1;
      else
        high = middle;
    }
    starts[i] = low;
  }
}

template <class T, class Steps>
__global__ void __launch_bounds__(block_size)
    index_sum_kernel(const T* x, std::int64_t slice, const std::int64_t* starts, const std::int64_t* places, T* y,
                     Steps steps) {
  const auto count = static_cast<std::int64_t>(steps.count);
  for (std::int64_t i = this_thread(); i < count; i += all_threads()) {
    std::int64_t at[3];
    steps.find(static_cast<decltype(steps.count)>(i), at);
    compute_t<T> sum = 0;
    const std::int64_t end = starts[at[2] + 1];
    for (std::int64_t k = starts[at[2]]; k < end; ++k) sum += widened(x[at[1] + places[k] * slice]);
    y[at[0]] = narrowed<T>(sum);
  }
}

void index_sum(const IndexSumArgs& a, const Plan&, Workspace ws) {
  if (a.y.numel() == 0) return;
  const IndexSumScratch layout(a);
  const cudaStream_t stream = stream_of(a.y.device);
  const Index index(a.index, a.y.shape[a.dim]);
  auto* const data = static_cast<char*>(ws.data);
  const auto buffer = [&](int i) { return data + static_cast<std::size_t>(i) * layout.buffer; };
  const auto pairs = [&](int i) {
    return Pairs{reinterpret_cast<std::uint64_t*>(buffer(i)), reinterpret_cast<std::int64_t*>(buffer(i + 1))};
  };
  Pairs sorted = pairs(0);
  if (index.size > 0) {
    places_kernel<<<blocks_for(index.size, a.y.device), block_size, 0, stream>>>(index, sorted);
    check_launch();
    const int bits = std::bit_width(static_cast<std::uint64_t>(index.bound));
    sorted = sort_pairs(sorted, pairs(2), index.size, bits, {data + layout.sort, ws.bytes - layout.sort}, stream);
  }
  auto* const starts = reinterpret_cast<std::int64_t*>(data + layout.starts);
  starts_kernel<<<blocks_for(index.bound + 1, a.y.device), block_size, 0, stream>>>(sorted.keys, index.size,
                                                                                    index.bound, starts);
  check_launch();
  visit_floating(a.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_steps(walk_over(a.y, a.x, a.dim), [&](const auto& steps) {
      index_sum_kernel<<<blocks_for(static_cast<std::int64_t>(steps.count), a.y.device), block_size, 0, stream>>>(
          a.x.as<T>(), a.x.strides[a.dim], starts, sorted.values, a.y.as<T>(), steps);
    });
  });
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
      .one_hot = one_hot,
  };
  return all;
}

}  // namespace bytetape::cuda
