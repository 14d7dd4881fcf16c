// Cumulative sums of rows along a dim. A group of threads processes a row in tiles. Each thread sums adjacent elements,
// the sums of the threads before it are added in a fixed order, and the tile's total is carried to the next tile. If
// rows are adjacent element by element, adjacent threads take adjacent rows.
#include <algorithm>
#include <bit>
#include <type_traits>

#include "bytetape/core/integers.h"
#include "bytetape/core/kernels/scan.h"
#include "bytetape/core/visit.h"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

constexpr int warp = 32, most_threads = 512;
constexpr int items = 4;                     // adjacent elements per thread
constexpr int narrowest = 8;                 // fewest adjacent columns in a block
constexpr std::int64_t enough_blocks = 264;  // two per multiprocessor of an H100

/// Elements of a tile are summed in Lane, and tiles in Total. Integers wrap around.
template <class T>
struct Sum {
  static constexpr bool is_integer = std::is_integral_v<T>;
  using Lane = std::conditional_t<is_integer, std::uint64_t, compute_t<T>>;
  using Total = std::conditional_t<is_integer, std::uint64_t, double>;
  using Out = std::conditional_t<is_integer, std::int64_t, T>;
};

/// The rows of y (operand 0) and x.
struct Rows {
  Steps<2, std::int64_t> rows;
  std::int64_t size;      // elements of a row
  std::int64_t steps[2];  // steps within a row
  bool is_reversed;
  int along = 1, across = 1;  // threads of a row, and adjacent rows; powers of two
  bool is_by_column = false;  // whether a row's threads are `across` apart; else adjacent
  bool is_vector = false;     // whether a thread's elements are adjacent, aligned and complete

  /// Returns the place in memory order of element i of the row.
  __device__ std::int64_t place(std::int64_t i) const { return is_reversed ? size - 1 - i : i; }
};

/// Returns the sum of v over the earlier threads of the row, and sets `total` to the sum over all of them. All threads
/// of the block must call this.
template <class Lane>
__device__ Lane sum_before(const Rows& r, Lane v, Lane& total) {
  __shared__ Lane sums[most_threads];
  const int t = threadIdx.x;
  Lane before = 0;
  int parts = r.along, part = t / r.across, first = t % r.across;  // the row's sums in shared memory are `across` apart
  total = v;
  if (!r.is_by_column) {
    const int width = min(r.along, warp), lane = t % width;
    for (int apart = 1; apart < width; apart *= 2) {
      const auto other = static_cast<Lane>(__shfl_up_sync(~0u, v, apart, width));
      if (lane >= apart) v += other;
    }
    const auto previous = static_cast<Lane>(__shfl_up_sync(~0u, v, 1, width));
    if (lane > 0) before = previous;
    total = static_cast<Lane>(__shfl_sync(~0u, v, width - 1, width));
    parts = r.along / width;
    part = t / warp;
    first = 0;
  }
  if (parts == 1) return before;
  if (r.is_by_column || t % warp == 0) sums[first + part * r.across] = total;
  __syncthreads();
  Lane earlier = 0, sum = 0;
  for (int p = 0; p < parts; ++p) {
    if (p == part) earlier = sum;
    sum += sums[first + p * r.across];
  }
  __syncthreads();  // the next tile overwrites `sums`
  total = sum;
  return earlier + before;
}

template <class T>
__global__ void __launch_bounds__(most_threads)
    cumsum_kernel(const __grid_constant__ Rows r, const T* x, typename Sum<T>::Out* y) {
  using Lane = typename Sum<T>::Lane;
  using Out = typename Sum<T>::Out;
  const int t = threadIdx.x, rows = static_cast<int>(blockDim.x) / r.along;
  const int side = r.is_by_column ? t % r.across : t / r.along, at = r.is_by_column ? t / r.across : t % r.along;
  const std::int64_t row = std::int64_t{blockIdx.x} * rows + side;
  const bool is_there = row < r.rows.count;
  std::int64_t offsets[2];
  r.rows.find(min(row, r.rows.count - 1), offsets);  // no thread returns early, because sum_before() needs all
  y += offsets[0];
  x += offsets[1];

  typename Sum<T>::Total carry = 0;
  for (std::int64_t tile = 0; tile < r.size; tile += r.along * items) {
    const std::int64_t first = tile + at * items;
    const std::int64_t count = is_there ? min(r.size - first, std::int64_t{items}) : 0;  // negative if all are missing
    const std::int64_t lowest = min(r.place(first), r.place(first + items - 1));         // first place of a vector
    Lane lanes[items];
    if (r.is_vector && count > 0) {
      const auto packed = Packed<T, items>::load(x + lowest);
#pragma unroll
      for (int k = 0; k < items; ++k)
        lanes[k] = static_cast<Lane>(widened(r.is_reversed ? packed.values[items - 1 - k] : packed.values[k]));
    } else {
#pragma unroll
      for (int k = 0; k < items; ++k)
        lanes[k] = k < count ? static_cast<Lane>(widened(x[r.place(first + k) * r.steps[1]])) : Lane{0};
    }
#pragma unroll
    for (int k = 1; k < items; ++k) lanes[k] += lanes[k - 1];

    Lane total;
    const Lane before = sum_before(r, lanes[items - 1], total);
    Packed<Out, items> sums;
#pragma unroll
    for (int k = 0; k < items; ++k)
      sums.values[k] = narrowed<Out>(static_cast<compute_t<Out>>(carry + (before + lanes[k])));
    carry += total;

    if (r.is_vector && count > 0) {
      Packed<Out, items> ordered;
#pragma unroll
      for (int k = 0; k < items; ++k) ordered.values[k] = sums.values[r.is_reversed ? items - 1 - k : k];
      ordered.store(y + lowest);
    } else {
#pragma unroll
      for (int k = 0; k < items; ++k)
        if (k < count) y[r.place(first + k) * r.steps[0]] = sums.values[k];
    }
  }
}

int power_of_two(std::int64_t at_least, std::int64_t most) {
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::min(at_least, most))));
}

/// Chooses the number of threads of a row. Returns the number of threads of a block.
int arrange(Rows& r) {
  const int most_along = power_of_two(ceil_div(r.size, items), most_threads);
  if (!r.is_by_column) {
    r.along = most_along;
    return r.along > warp ? r.along : 4 * warp;  // sum_before() needs a whole block for a row of several warps
  }
  int threads = 256;
  r.across = threads;
  const auto has_few = [&] { return ceil_div(r.rows.count, r.across) < enough_blocks; };
  for (; r.along < most_along && r.across > narrowest && has_few(); r.along *= 2) r.across /= 2;
  return r.along * r.across;
}

template <class T>
void launch(const ConstView& x, int dim, bool is_reversed, const View& y) {
  using Out = typename Sum<T>::Out;
  Shape others = y.shape;
  others[dim] = 1;
  Walk<2> walk(others, {&y.strides, &x.strides});
  walk.complete();
  Rows r{.rows = Steps<2, std::int64_t>(walk),
         .size = y.shape[dim],
         .steps = {y.strides[dim], x.strides[dim]},
         .is_reversed = is_reversed};
  r.is_by_column = r.size > 1 && r.rows.count > 1 && r.steps[0] > walk.strides[0].back();
  const auto is_even = [](const Strides& s) {
    return std::all_of(s.begin(), s.end(), [](std::int64_t v) { return v % items == 0; });
  };
  r.is_vector = r.steps[0] == 1 && r.steps[1] == 1 && r.size % items == 0 && is_even(walk.strides[0]) &&
                is_even(walk.strides[1]) && is_aligned(y, sizeof(Out) * items) && is_aligned(x, sizeof(T) * items);
  const int threads = arrange(r);
  const auto blocks = static_cast<unsigned>(ceil_div(r.rows.count, threads / r.along));
  cumsum_kernel<T><<<blocks, threads, 0, stream_of(y.device)>>>(r, x.as<T>(), y.as<Out>());
  check_launch();
}

void cumsum(const ConstView& x, int dim, bool is_reversed, const View& y) {
  if (y.numel() == 0) return;
  visit(x.dtype, [&](auto zero) { launch<decltype(zero)>(x, dim, is_reversed, y); });
}

}  // namespace

const ScanKernels& scan_kernels() {
  static const ScanKernels all{
      .cumsum = cumsum,
  };
  return all;
}

}  // namespace bytetape::cuda
