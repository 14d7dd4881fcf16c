// Reductions along rows of x or across its columns (reduce_layout.h). A thread combines its inputs four at a time in
// the computed type, and these results in a wider one. Then threads combine in a tree.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "bytetape/core/kernels/reduce.h"
#include "bytetape/core/visit.h"
#include "bytetape/cuda/alignment.h"
#include "bytetape/cuda/index.cuh"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/reduce/arg_rows.h"
#include "bytetape/cuda/reduce/block_reduce.cuh"
#include "bytetape/cuda/reduce/reduce_layout.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

constexpr int warp = 32, most_threads = 1024, column_threads = 256, unroll = reduce_unroll;

// The kinds of reduction. `lanes` accumulate a few inputs, `totals` many.

template <class T>
struct Sum {
  static constexpr bool is_float = std::is_floating_point_v<compute_t<T>>;
  using Lane = std::conditional_t<is_float, compute_t<T>, std::uint64_t>;
  using Total = std::conditional_t<is_float, double, std::uint64_t>;  // integers wrap around, as in PyTorch
  __device__ static Total identity() { return 0; }
  __device__ static Lane lane(compute_t<T> v, std::int64_t) { return static_cast<Lane>(v); }
  __device__ static Lane empty_lane() { return 0; }
  template <class V>
  __device__ static V combine(V a, V b) {
    return a + b;
  }
  template <class C>
  __device__ static C result(Total t, double divisor) {
    if constexpr (is_float)
      return static_cast<C>(t) / static_cast<C>(divisor);
    else
      return static_cast<C>(t);
  }
};

template <class T>
struct Product : Sum<T> {
  using typename Sum<T>::Total;
  using Lane = Total;  // products of a few floats can leave the range of f32 and come back
  __device__ static Total identity() { return 1; }
  __device__ static Lane lane(compute_t<T> v, std::int64_t) { return static_cast<Lane>(v); }
  __device__ static Lane empty_lane() { return 1; }
  template <class V>
  __device__ static V combine(V a, V b) {
    return a * b;
  }
};

template <class T, bool is_max>
struct Extreme {
  using Lane = compute_t<T>;
  using Total = Lane;
  __device__ static Total identity() {
    using Limits = std::numeric_limits<Lane>;
    if constexpr (std::is_floating_point_v<Lane>)
      return is_max ? -Limits::infinity() : Limits::infinity();
    else
      return is_max ? Limits::lowest() : Limits::max();
  }
  __device__ static Lane lane(compute_t<T> v, std::int64_t) { return v; }
  __device__ static Lane empty_lane() { return identity(); }
  __device__ static Lane combine(Lane a, Lane b) {
    return b != b || (is_max ? b > a : b < a) ? b : a;  // NaN is propagated
  }
  template <class C>
  __device__ static C result(Total t, double) {
    return static_cast<C>(t);
  }
};
template <class T>
using Max = Extreme<T, true>;
template <class T>
using Min = Extreme<T, false>;

template <class V>
struct Candidate {
  V value;
  std::int64_t at;
};

template <class T, bool is_max>
struct ArgExtreme {
  using Element = T;
  using Lane = Candidate<compute_t<T>>;
  using Total = Lane;
  __device__ static Total identity() {
    return {Extreme<T, is_max>::identity(), std::numeric_limits<std::int64_t>::max()};  // sorted behind any input
  }
  __device__ static Lane lane(compute_t<T> v, std::int64_t at) { return {v, at}; }
  __device__ static Lane empty_lane() { return identity(); }
  __device__ static Lane combine(Lane a, Lane b) {
    const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
    const bool equal = a_is_nan == b_is_nan && (a_is_nan || a.value == b.value);
    const bool b_wins =
        equal ? b.at < a.at : b_is_nan || (!a_is_nan && (is_max ? b.value > a.value : b.value < a.value));
    return b_wins ? b : a;
  }
  template <class C>
  __device__ static C result(Total t, double) {
    return t.at;
  }
};

template <class T>
using ArgMax = ArgExtreme<T, true>;
template <class T>
using ArgMin = ArgExtreme<T, false>;

struct Arguments {
  Offsets<2> outputs;  // for rows every output; for columns the runs, without x's innermost dim
  Offsets<1> inputs;
  bool is_vector;                                 // whether a thread's lanes are adjacent and aligned
  std::int64_t step;                              // step of x in the innermost dim
  std::int64_t width = 1, y_step = 0;             // for columns: width of a run
  std::int64_t output_count, input_count, chunk;  // chunk: inputs of a block
  int along, across;
  double divisor;  // divisor of sums
  void* values;    // of an ArgExtreme: the extreme elements, laid out as y; may be null
};

template <class V>
__device__ Candidate<V> shuffle(Candidate<V> v, int mask) {
  return {cuda::shuffle(v.value, mask), cuda::shuffle(v.at, mask)};
}

template <class R>
struct Combine {
  template <class V>
  __device__ V operator()(const V& a, const V& b) const {
    return R::combine(a, b);
  }
};

template <class R, class Lane>
__device__ Lane combine_all(const Lane (&lanes)[unroll]) {
  static_assert(unroll == 4);
  return R::combine(R::combine(lanes[0], lanes[1]), R::combine(lanes[2], lanes[3]));
}

/// Loads n lanes from each address, adjacent and aligned, or `step` apart.
template <int n, class T>
__device__ void load(T (&values)[unroll][n], const T* const (&from)[unroll], bool is_vector, std::int64_t step) {
  if (is_vector) {
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const auto packed = Packed<T, n>::load(from[u]);
#pragma unroll
      for (int k = 0; k < n; ++k) values[u][k] = packed.values[k];
    }
  } else {
#pragma unroll
    for (int u = 0; u < unroll; ++u)
#pragma unroll
      for (int k = 0; k < n; ++k) values[u][k] = from[u][k * step];
  }
}

/// Stores y and the values, or partial results if the inputs are split: row-major (splits, outputs).
template <class R, class Out>
__device__ void store(const Arguments& a, Out* y, typename R::Total* partials, std::int64_t output, std::int64_t offset,
                      typename R::Total total) {
  if (partials) {
    partials[blockIdx.y * a.output_count + output] = total;
    return;
  }
  y[offset] = narrowed<Out>(R::template result<compute_t<Out>>(total, a.divisor));
  if constexpr (requires { typename R::Element; }) {
    using T = typename R::Element;
    if (a.values) static_cast<T*>(a.values)[offset] = narrowed<T>(total.value);
  }
}

template <int n, class R, class T, class Out>
__global__ void __launch_bounds__(most_threads)
    rows_kernel(const __grid_constant__ Arguments a, const T* x, Out* y, typename R::Total* partials) {
  using Total = typename R::Total;
  const int along = a.along, at = static_cast<int>(threadIdx.x) & (along - 1);
  const std::int64_t output = std::int64_t{blockIdx.x} * (blockDim.x / along) + threadIdx.x / along;
  std::int64_t offsets[2] = {};
  a.outputs.add(min(output, a.output_count - 1), offsets);  // no thread returns early: reduce_block() needs all
  const T* row = x + offsets[0];
  const std::int64_t begin = blockIdx.y * a.chunk, count = min(a.chunk, a.input_count - begin), vectors = count / n;

  Total totals[n];
#pragma unroll
  for (int k = 0; k < n; ++k) totals[k] = R::identity();
  for (std::int64_t v = at; v < vectors; v += unroll * along) {
    const T* from[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) from[u] = row + a.inputs.first(begin + min(v + u * along, vectors - 1) * n);
    T values[unroll][n];
    load<n>(values, from, a.is_vector, a.step);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      typename R::Lane lanes[unroll];
#pragma unroll
      for (int u = 0; u < unroll; ++u)
        lanes[u] =
            v + u * along < vectors ? R::lane(widened(values[u][k]), begin + (v + u * along) * n + k) : R::empty_lane();
      totals[k] = R::combine(totals[k], static_cast<Total>(combine_all<R>(lanes)));
    }
  }
  for (std::int64_t i = begin + vectors * n + at; i < begin + count; i += along)  // the rest is less than a vector
    totals[0] = R::combine(totals[0], static_cast<Total>(R::lane(widened(row[a.inputs.first(i)]), i)));
#pragma unroll
  for (int k = 1; k < n; ++k) totals[0] = R::combine(totals[0], totals[k]);
  const Total total = reduce_block<WarpOrder::tree, most_threads / warp>(Combine<R>(), totals[0], along);
  if (at == 0 && output < a.output_count) store<R>(a, y, partials, output, offsets[1], total);
}

template <class R, class T, class Out>
__global__ void __launch_bounds__(column_threads, 4)
    columns_kernel(const __grid_constant__ Arguments a, const T* x, Out* y, typename R::Total* partials) {
  constexpr int n = column_lanes(sizeof(T));
  using Total = typename R::Total;
  const int t = threadIdx.x, along = a.along, across = a.across;
  const int side = t & (across - 1), at = t / across & (along - 1), group = t / (across * along);
  const std::int64_t tiles = (a.width + across * n - 1) / (across * n), runs = a.output_count / a.width;
  const std::int64_t run_block = blockIdx.x / tiles, tile = blockIdx.x - run_block * tiles;
  const std::int64_t run = run_block * (column_threads / (across * along)) + group;
  // A thread's columns are adjacent if it loads vectors. Otherwise adjacent threads have adjacent columns. A thread
  // beyond the last column reads valid columns, and stores nothing.
  const int apart = a.is_vector ? 1 : across;
  const std::int64_t column = tile * across * n + (a.is_vector ? side * n : side);
  std::int64_t offsets[2] = {};
  a.outputs.add(min(run, runs - 1), offsets);
  const std::int64_t begin = blockIdx.y * a.chunk, end = min(begin + a.chunk, a.input_count);
  const bool is_whole = column + (n - 1) * apart < a.width;
  const T* base = x + offsets[0] + (is_whole ? column * a.step : 0);
  const std::int64_t step = apart * a.step;

  Total totals[n];
#pragma unroll
  for (int k = 0; k < n; ++k) totals[k] = R::identity();
  for (std::int64_t i = begin + at; i < end; i += unroll * along) {
    const T* from[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) from[u] = base + a.inputs.first(min(i + u * along, end - 1));
    T values[unroll][n];
    if (is_whole) {
      load<n>(values, from, a.is_vector, step);
    } else {
#pragma unroll
      for (int u = 0; u < unroll; ++u)
#pragma unroll
        for (int k = 0; k < n; ++k) values[u][k] = from[u][min(column + k * apart, a.width - 1) * a.step];
    }
#pragma unroll
    for (int k = 0; k < n; ++k) {
      typename R::Lane lanes[unroll];
#pragma unroll
      for (int u = 0; u < unroll; ++u)
        lanes[u] = i + u * along < end ? R::lane(widened(values[u][k]), i + u * along) : R::empty_lane();
      totals[k] = R::combine(totals[k], static_cast<Total>(combine_all<R>(lanes)));
    }
  }

  if (along > 1) reduce_apart<column_threads>(Combine<R>(), totals, at, along, across);
  if (at != 0 || run >= runs) return;
#pragma unroll
  for (int k = 0; k < n; ++k) {
    const std::int64_t c = column + k * apart;
    if (c < a.width) store<R>(a, y, partials, run * a.width + c, offsets[1] + c * a.y_step, totals[k]);
  }
}

bool divides(std::int64_t n, const Dims& values, int count) {
  return std::all_of(values.begin(), values.begin() + count, [n](std::int64_t v) { return v % n == 0; });
}

Arguments arguments_of(const ReduceLayout& r, const void* x, std::size_t element, double divisor, void* values) {
  Walk<2> outputs = r.kept;
  const int runs = outputs.shape.size() - 1, rows = r.reduced.shape.size() - 1;  // dims without the innermost one
  const Strides &kept = r.kept.strides[0], &reduced = r.reduced.strides[0];
  const std::int64_t step = r.is_by_column ? kept.back() : reduced.back();
  const std::int64_t width = r.is_by_column ? r.kept.shape.back() : 1;
  if (r.is_by_column) {
    outputs.shape.erase(runs);
    for (Strides& s : outputs.strides) s.erase(runs);
    outputs.complete();
  }
  const bool is_vector = step == 1 && width % (r.is_by_column ? r.lanes : 1) == 0 && is_aligned(x, r.lanes * element) &&
                         divides(r.lanes, kept, r.is_by_column ? runs : runs + 1) &&
                         divides(r.lanes, reduced, r.is_by_column ? rows + 1 : rows);
  return {.outputs = Offsets<2>(outputs),
          .inputs = Offsets<1>(r.reduced),
          .is_vector = is_vector,
          .step = step,
          .width = width,
          .y_step = r.kept.strides[1].back(),
          .output_count = r.outputs,
          .input_count = r.inputs,
          .chunk = r.chunk,
          .along = r.along,
          .across = r.across,
          .divisor = divisor,
          .values = values};
}

template <class R, class T, class Out>
void launch(const ReduceLayout& r, const T* x, Out* y, typename R::Total* partials, cudaStream_t stream,
            double divisor = 1, void* values = nullptr) {
  const Arguments a = arguments_of(r, x, sizeof(T), divisor, values);
  const dim3 grid(static_cast<unsigned>(r.blocks), static_cast<unsigned>(r.splits));
  const auto kernel = r.is_by_column ? columns_kernel<R, T, Out>
                      : r.lanes == 1 ? rows_kernel<1, R, T, Out>
                                     : rows_kernel<row_lanes(sizeof(T)), R, T, Out>;
  kernel<<<grid, r.threads, 0, stream>>>(a, x, y, partials);
  check_launch();
}

template <template <class> class R, class T, class Out>
void accumulate(const SumArgs& args, Workspace ws) {
  using Total = typename R<T>::Total;
  const auto& [x, y, divisor] = args;
  const ReduceLayout r = reduce_layout(x, y, true);
  const cudaStream_t stream = stream_of(y.device);
  if (r.splits == 1) return launch<R<T>, T, Out>(r, x.as<T>(), y.as<Out>(), nullptr, stream, divisor);
  auto* partials = static_cast<Total*>(ws.data);
  launch<R<T>, T, Out>(r, x.as<T>(), y.as<Out>(), partials, stream);
  launch<R<Total>, Total, Out>(second_layout(r, sizeof(Total)), partials, y.as<Out>(), nullptr, stream, divisor);
}

/// Calls f with a zero of the type that kernels read. bool is read as bytes of 0 and 1.
template <class F>
void visit_read(DType t, const F& f) {
  if (t == DType::boolean) return f(std::uint8_t{});
  visit_arithmetic(t, f);
}

template <template <class> class R>
void accumulate(const SumArgs& args, const Plan&, Workspace ws) {
  if (args.y.numel() == 0) return;
  visit_read(args.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, std::int64_t>)
      accumulate<R, std::uint64_t, std::int64_t>(args, ws);  // unsigned, as partial results are; the bits are the same
    else if constexpr (std::is_integral_v<T>)
      accumulate<R, T, std::int64_t>(args, ws);
    else if (args.y.dtype == args.x.dtype)
      accumulate<R, T, T>(args, ws);
    else
      accumulate<R, T, float>(args, ws);
  });
}

template <template <class> class R>
void extreme(const ConstView& x, const View& y) {
  if (y.numel() == 0) return;
  visit_read(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch<R<T>, T, T>(reduce_layout(x, y, false), x.as<T>(), y.as<T>(), nullptr, stream_of(y.device));
  });
}

template <template <class> class R, bool is_max>
void extreme_with_index(const ConstView& x, int dim, const View& values, const View& indices) {
  if (indices.numel() == 0 || arg_extreme_of_rows(is_max, x, dim, values, indices)) return;
  visit_read(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch<R<T>, T, std::int64_t>(reduce_layout(x, indices, false), x.as<T>(), indices.as<std::int64_t>(), nullptr,
                                  stream_of(x.device), 1, values.data());
  });
}

}  // namespace

const ReduceKernels& reduce_kernels() {
  static const ReduceKernels all{
      .sum = {reduce_plans().sum.plan, accumulate<Sum>},
      .prod = {reduce_plans().prod.plan, accumulate<Product>},
      .max = extreme<Max>,
      .min = extreme<Min>,
      .argmax = extreme_with_index<ArgMax, true>,
      .argmin = extreme_with_index<ArgMin, false>,
  };
  return all;
}

}  // namespace bytetape::cuda
