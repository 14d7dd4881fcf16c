// A long run is divided into chunks of fixed places, which other threads sum first. So the sum of a run has a fixed
// order, and one target with all places takes little longer than many targets with a few.
#include "bytetape/cuda/reduce/sorted_runs.cuh"

#include <bit>

#include "bytetape/core/visit.h"
#include "bytetape/core/visit_bits.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

/// Returns a walk over y's offset and x's, each in slice 0 except that y's offset also counts the slices, then the
/// number of the slice and that of the column. There are `slices` slices. The order is that of y's memory.
Walk<4> walk_over(const View& y, const ConstView& x, int dim, std::int64_t slices) {
  Shape shape = y.shape;
  shape[dim] = slices;
  Strides of_slice = x.is_constant() ? Dims::filled(y.rank(), 0) : x.strides, number = Dims::filled(y.rank(), 0);
  of_slice[dim] = 0;
  number[dim] = 1;
  // Columns are counted in the order of y's memory, as Walk sorts dims, so that adjacent threads have adjacent columns.
  Strides column = Dims::filled(y.rank(), 0);
  Dims order;
  for (int d = 0; d < y.rank(); ++d)
    if (d != dim) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return y.strides[static_cast<int>(a)] > y.strides[static_cast<int>(b)];
  });
  std::int64_t columns = 1;
  for (int i = order.size() - 1; i >= 0; --i) {
    const int d = static_cast<int>(order[i]);
    column[d] = columns;
    columns *= y.shape[d];
  }
  Walk<4> walk(shape, {&y.strides, &of_slice, &number, &column});
  walk.complete();
  return walk;
}

std::int64_t columns_of(const View& y, int dim) {
  Shape shape = y.shape;
  shape[dim] = 1;
  return numel(shape);
}

/// Returns sum plus the elements at x[offset] of the slices of places begin to end - 1, in order.
template <class T>
__device__ compute_t<T> add_places(compute_t<T> sum, const Slices<T>& x, std::int64_t offset,
                                   const std::int64_t* places, std::int64_t begin, std::int64_t end) {
#pragma unroll 4
  for (std::int64_t k = begin; k < end; ++k) sum += widened(x.x[offset + places[k] * x.step]);
  return sum;
}

/// Sums the chunks that lie in one run.
template <class T, class Steps>
__global__ void __launch_bounds__(block_size)
    chunk_sums_kernel(SortedRuns runs, Slices<T> x, compute_t<T>* sums, std::int64_t columns, Steps steps) {
  const auto count = static_cast<std::int64_t>(steps.count);
  for (std::int64_t i = this_thread(); i < count; i += all_threads()) {
    std::int64_t at[4];
    steps.find(static_cast<decltype(steps.count)>(i), at);
    const std::int64_t begin = at[2] * runs.chunk, end = begin + runs.chunk;
    const std::uint64_t target = runs.targets[begin];
    if (target < static_cast<std::uint64_t>(runs.bound) && runs.targets[end - 1] == target)
      sums[at[2] * columns + at[3]] = add_places<T>(0, x, at[1], runs.places, begin, end);
  }
}

/// Returns sum plus a column of a run, the places begin to end - 1. Whole chunks count as one number.
template <class T>
__device__ compute_t<T> add_run(compute_t<T> sum, const SortedRuns& runs, const Slices<T>& x, std::int64_t offset,
                                const compute_t<T>* sums, std::int64_t columns, std::int64_t column, std::int64_t begin,
                                std::int64_t end) {
  if (end - begin < runs.chunk || runs.chunks == 0) return add_places(sum, x, offset, runs.places, begin, end);
  const std::int64_t first = (begin + runs.chunk - 1) / runs.chunk, last = end / runs.chunk;
  if (first >= last) return add_places(sum, x, offset, runs.places, begin, end);
  sum = add_places(sum, x, offset, runs.places, begin, first * runs.chunk);
#pragma unroll 4
  for (std::int64_t c = first; c < last; ++c) sum += sums[c * columns + column];
  return add_places(sum, x, offset, runs.places, last * runs.chunk, end);
}

/// Finds where the run of each target begins, and where invalid targets begin.
__global__ void __launch_bounds__(block_size) starts_kernel(SortedRuns runs, std::int64_t* starts) {
  for (std::int64_t i = this_thread(); i <= runs.bound; i += all_threads()) {
    std::int64_t low = 0, high = runs.count;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (runs.targets[middle] < static_cast<std::uint64_t>(i))
        low = middle + 1;
      else
        high = middle;
    }
    starts[i] = low;
  }
}

template <class T, class Steps>
__global__ void __launch_bounds__(block_size)
    sum_runs_kernel(SortedRuns runs, const std::int64_t* starts, Slices<T> x, const compute_t<T>* sums,
                    std::int64_t columns, T* y, Steps steps) {
  const auto count = static_cast<std::int64_t>(steps.count);
  for (std::int64_t i = this_thread(); i < count; i += all_threads()) {
    std::int64_t at[4];
    steps.find(static_cast<decltype(steps.count)>(i), at);
    y[at[0]] = narrowed<T>(add_run<T>(0, runs, x, at[1], sums, columns, at[3], starts[at[2]], starts[at[2] + 1]));
  }
}

__device__ bool has_fault(const SortedRuns& runs) { return runs.targets[runs.count - 1] == invalid_target(runs.bound); }

/// Returns the end of the run that begins at place `begin`. Its length is doubled until it is too long.
__device__ std::int64_t end_of_run(const SortedRuns& runs, std::int64_t begin) {
  const std::uint64_t target = runs.targets[begin];
  std::int64_t length = 1;
  while (begin + length < runs.count && runs.targets[begin + length] == target) length *= 2;
  std::int64_t low = begin + length / 2, high = min(begin + length, runs.count);  // low is in the run, high is not
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (runs.targets[middle] == target ? low : high) = middle;
  }
  return high;
}

/// The first thread of each run adds its slices. Element i of the walk is a place and a column.
template <class T, class Steps>
__global__ void __launch_bounds__(block_size)
    add_runs_kernel(SortedRuns runs, Slices<T> x, const compute_t<T>* sums, std::int64_t columns, T* y,
                    std::int64_t y_step, bool keeps_on_fault, Steps steps) {
  if (keeps_on_fault && has_fault(runs)) return;
  const auto count = static_cast<std::int64_t>(steps.count);
  for (std::int64_t i = this_thread(); i < count; i += all_threads()) {
    std::int64_t at[4];
    steps.find(static_cast<decltype(steps.count)>(i), at);
    const std::int64_t k = at[2], target = static_cast<std::int64_t>(runs.targets[k]);
    if (target >= runs.bound || (k > 0 && runs.targets[k - 1] == runs.targets[k])) continue;
    T* const to = y + at[0] + (target - k) * y_step;
    *to = narrowed<T>(add_run<T>(widened(*to), runs, x, at[1], sums, columns, at[3], k, end_of_run(runs, k)));
  }
}

/// The last thread of each run copies its slice.
template <class T, class Steps>
__global__ void __launch_bounds__(block_size)
    copy_runs_kernel(SortedRuns runs, Slices<T> x, T* y, std::int64_t y_step, bool keeps_on_fault, Steps steps) {
  if (keeps_on_fault && has_fault(runs)) return;
  const auto count = static_cast<std::int64_t>(steps.count);
  for (std::int64_t i = this_thread(); i < count; i += all_threads()) {
    std::int64_t at[4];
    steps.find(static_cast<decltype(steps.count)>(i), at);
    const std::int64_t k = at[2], target = static_cast<std::int64_t>(runs.targets[k]);
    if (target >= runs.bound || (k + 1 < runs.count && runs.targets[k + 1] == runs.targets[k])) continue;
    y[at[0] + (target - k) * y_step] = x.at(at[1], runs.places[k]);
  }
}

/// Calls f(x, sums, columns) with the element type's view of x, once the chunks of long runs are summed.
template <class F>
void with_chunk_sums(const SortedRuns& runs, const ConstView& x, int dim, const View& y, const F& f) {
  const std::int64_t columns = columns_of(y, dim);
  visit_wrapping(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Slices<T> slices(x, dim);
    auto* const sums = reinterpret_cast<compute_t<T>*>(runs.chunk_sums);
    if (runs.chunks > 0) {
      with_steps(walk_over(y, x, dim, runs.chunks), [&](const auto& steps) {
        chunk_sums_kernel<T>
            <<<blocks_for(static_cast<std::int64_t>(steps.count), y.device), block_size, 0, stream_of(y.device)>>>(
                runs, slices, sums, columns, steps);
      });
      check_launch();
    }
    f(slices, sums, columns);
  });
}

}  // namespace

void sum_runs(const SortedRuns& runs, const ConstView& x, int dim, const View& y, std::int64_t* starts) {
  const cudaStream_t stream = stream_of(y.device);
  starts_kernel<<<blocks_for(runs.bound + 1, y.device), block_size, 0, stream>>>(runs, starts);
  check_launch();
  with_chunk_sums(runs, x, dim, y, [&]<class T>(const Slices<T>& slices, compute_t<T>* sums, std::int64_t columns) {
    with_steps(walk_over(y, x, dim, y.shape[dim]), [&](const auto& steps) {
      sum_runs_kernel<T><<<blocks_for(static_cast<std::int64_t>(steps.count), y.device), block_size, 0, stream>>>(
          runs, starts, slices, sums, columns, y.as<T>(), steps);
    });
    check_launch();
  });
}

void add_runs(const SortedRuns& runs, const ConstView& x, int dim, const View& y, bool keeps_on_fault) {
  with_chunk_sums(runs, x, dim, y, [&]<class T>(const Slices<T>& slices, compute_t<T>* sums, std::int64_t columns) {
    with_steps(walk_over(y, x, dim, runs.count), [&](const auto& steps) {
      add_runs_kernel<T>
          <<<blocks_for(static_cast<std::int64_t>(steps.count), y.device), block_size, 0, stream_of(y.device)>>>(
              runs, slices, sums, columns, y.as<T>(), y.strides[dim], keeps_on_fault, steps);
    });
    check_launch();
  });
}

void copy_runs(const SortedRuns& runs, const ConstView& x, int dim, const View& y, bool keeps_on_fault) {
  visit_bits(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_steps(walk_over(y, x, dim, runs.count), [&](const auto& steps) {
      copy_runs_kernel<T>
          <<<blocks_for(static_cast<std::int64_t>(steps.count), y.device), block_size, 0, stream_of(y.device)>>>(
              runs, Slices<T>(x, dim), y.as<T>(), y.strides[dim], keeps_on_fault, steps);
    });
  });
  check_launch();
}

}  // namespace bytetape::cuda
