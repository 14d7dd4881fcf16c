// Products of up to four rows, whose time is that of reading b once. One to four warps compute a few columns of y. Each
// thread reads vectors of 16 bytes along k. It adds their products in f32 in order, and the threads combine in a tree.
// The order of addition depends on k and the dtype alone.
#include "bytetape/cuda/matmul/matvec.h"

#include <type_traits>

#include "bytetape/core/visit.h"
#include "bytetape/cuda/alignment.h"
#include "bytetape/cuda/async_copy.cuh"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/pointwise/gelu.cuh"
#include "bytetape/cuda/reduce/block_reduce.cuh"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/overlap.cuh"

namespace bytetape::cuda {
namespace {

constexpr int threads = 128, warp = 32, most_rows = 4, most_outputs = 4;
constexpr int unroll = 4;                       // vectors of a column that a thread copies at once
constexpr std::int64_t longest = 1 << 14;       // k from which one block is too few for a column
constexpr std::int64_t many_columns = 1 << 13;  // columns that occupy a GPU even if a warp computes several

template <class T, class Out>
struct Arguments {
  const T *x, *w;  // w has b's columns
  const Out* bias;
  Out *y, *z;
  std::int64_t columns, x_step, w_step, bias_row, bias_column, y_row, y_column;
  int rows, vectors;
  int shift = 5;     // 1 << shift threads share a column
  bool reads_early;  // w and bias, before the wait for earlier work
  Activation activation;

  explicit Arguments(const MatmulArgs& a)
      : x(a.a.as<T>()),
        w(a.b.as<T>()),
        bias(a.bias.as<Out>()),
        y(a.y.as<Out>()),
        z(a.z.as<Out>()),
        columns(a.y.shape[2]),
        x_step(a.a.strides[1]),
        w_step(a.b.strides[2]),
        bias_row(bias ? a.bias.strides[1] : 0),
        bias_column(bias ? a.bias.strides[2] : 0),
        y_row(a.y.strides[1]),
        y_column(a.y.strides[2]),
        rows(static_cast<int>(a.y.shape[1])),
        vectors(static_cast<int>(a.a.shape[2]) / vector_width<T>),
        reads_early(may_read_early(a.b, a.bias)),
        activation(a.activation) {
    while (along() < threads && vectors > along() * unroll) ++shift;
  }
  __host__ __device__ int along() const { return 1 << shift; }
  __host__ __device__ int columns_at_once() const { return threads >> shift; }
};

/// Returns the activation of z, which is to be stored as Out.
template <class Out>
__device__ float activated(Activation activation, float z) {
  if (activation == Activation::relu) return z < 0 ? 0.f : z;
  return activation == Activation::gelu_tanh ? GeluTanh<Out>()(z) : z;
}

/// A thread's vectors of `rows` rows of x and of `outputs` columns from `first` on, some at a time, in shared memory. A
/// thread reads only what it copied itself.
template <int rows, int outputs, class T, class Out>
struct Staging {
  static constexpr int width = vector_width<T>, both = rows + outputs, together = both > 5 ? unroll / 2 : unroll;
  using Shared = Packed<T, width>[together][both][threads];

  const Arguments<T, Out>& a;
  std::int64_t first;
  Shared& shared;

  /// Calls f(u, k, is_there) for vectors from number `from` on: number u is at k.
  template <class F>
  __device__ void for_vectors(int from, const F& f) const {
#pragma unroll
    for (int u = 0; u < together; ++u) {
      const int v = from + u * a.along();
      const bool is_there = v < a.vectors;
      f(u, is_there ? std::int64_t{v} * width : 0, is_there);
    }
  }
  __device__ void copy_columns(int from) const {
    for_vectors(from, [&](int u, std::int64_t k, bool is_there) {
#pragma unroll
      for (int i = 0; i < outputs; ++i)
        copy_async(&shared[u][i][threadIdx.x], a.w + min(first + i, a.columns - 1) * a.w_step + k, is_there);
    });
  }
  __device__ void copy_rows(int from) const {
    for_vectors(from, [&](int u, std::int64_t k, bool is_there) {
#pragma unroll
      for (int i = 0; i < rows; ++i)
        copy_async<Cached::yes>(&shared[u][outputs + i][threadIdx.x], a.x + min(i, a.rows - 1) * a.x_step + k,
                                is_there);
    });
  }
};

/// Adds the products of the thread's vectors. The copies of the first columns have begun if the kernel reads early.
template <int rows, int outputs, class T, class Out>
__device__ void add_products(const Staging<rows, outputs, T, Out>& staging, int at, float (&sums)[rows * outputs]) {
  using S = Staging<rows, outputs, T, Out>;
  constexpr int width = S::width, both = S::both, together = S::together;
  const Arguments<T, Out>& a = staging.a;
  const auto& shared = staging.shared;
  for (int from = at; from < a.vectors; from += a.along() * together) {
    if (from != at || !a.reads_early) staging.copy_columns(from);
    staging.copy_rows(from);
    wait_for_copies();
#pragma unroll
    for (int u = 0; u < together; ++u) {
      Packed<T, width> vectors[both];
      for (int i = 0; i < both; ++i) vectors[i] = shared[u][i][threadIdx.x];
#pragma unroll
      for (int k = 0; k < width; ++k)
#pragma unroll
        for (int i = 0; i < rows * outputs; ++i)
          sums[i] += widened(vectors[outputs + i / outputs].values[k]) * widened(vectors[i % outputs].values[k]);
    }
  }
}

/// Starts to load the thread's part of `outputs` columns to the L2 cache.
template <int outputs, class T, class Out>
__device__ void prefetch_columns(const Arguments<T, Out>& a, std::int64_t first, int at) {
  constexpr int width = vector_width<T>, of_line = 8;  // vectors in 128 bytes
  for (int v = at * of_line; v < a.vectors; v += a.along() * of_line)
    for (int i = 0; i < outputs; ++i)
      prefetch_to_l2(a.w + min(first + i, a.columns - 1) * a.w_step + std::int64_t{v} * width);
}

template <class T, class Out, int rows, int outputs>
__global__ void __launch_bounds__(threads) matvec_kernel(Turn turn, const __grid_constant__ Arguments<T, Out> a) {
  const int at = static_cast<int>(threadIdx.x) & (a.along() - 1), group = static_cast<int>(threadIdx.x) >> a.shift;
  const std::int64_t first = (std::int64_t{blockIdx.x} * a.columns_at_once() + group) * outputs;
  // Thread i of a column's threads stores sum i. Its bias is loaded ahead of everything else.
  const int row = at / outputs;
  const std::int64_t column = first + at % outputs;
  const bool stores = row < a.rows && column < a.columns;
  const auto load_bias = [&] {
    return stores && a.bias ? widened(a.bias[row * a.bias_row + column * a.bias_column]) : 0.f;
  };
  float bias = 0;
  __shared__ typename Staging<rows, outputs, T, Out>::Shared shared;
  const Staging<rows, outputs, T, Out> staging{a, first, shared};
  if (a.reads_early) {
    if (at < a.vectors) staging.copy_columns(at);
    bias = load_bias();
  } else {
    prefetch_columns<outputs>(a, first, at);
  }
  wait_for_earlier_work(turn);
  if (!a.reads_early) bias = load_bias();
  float sums[rows * outputs] = {};
  add_products(staging, at, sums);
  reduce_warp(Plus(), sums);
  if (a.along() > warp) reduce_warps<WarpOrder::tree, threads / warp>(Plus(), sums, a.along());
  if (!stores) return;
  float z = 0;
#pragma unroll
  for (int i = 0; i < rows * outputs; ++i)
    if (at == i) z = sums[i];
  z += bias;
  const std::int64_t to = row * a.y_row + column * a.y_column;
  if (a.z) a.z[to] = narrowed<Out>(z);
  a.y[to] = narrowed<Out>(activated<Out>(a.activation, z));
}

template <class T, class Out>
void launch(const MatmulArgs& args) {
  const Arguments<T, Out> a(args);
  const auto with = [&](auto rows, auto outputs) {
    const std::int64_t of_block = a.columns_at_once() * outputs;
    const auto blocks = static_cast<unsigned>((a.columns + of_block - 1) / of_block);
    launch_overlapping(
        {.device = args.y.device, .blocks = blocks, .threads = threads, .writes = {&args.y, &args.before_activation()}},
        matvec_kernel<T, Out, rows, outputs>, a);
  };
  const auto with_rows = [&](auto rows) {
    if (a.columns < many_columns)
      with(rows, std::integral_constant<int, 1>());
    else
      with(rows, std::integral_constant<int, most_outputs>());
  };
  if (a.rows == 1)
    with_rows(std::integral_constant<int, 1>());
  else if (a.rows == 2)
    with_rows(std::integral_constant<int, 2>());
  else
    with_rows(std::integral_constant<int, most_rows>());
}

template <class T>
bool launch(const MatmulArgs& args) {
  if (args.y.dtype == args.a.dtype)
    launch<T, T>(args);
  else
    launch<T, float>(args);
  return true;
}

/// Whether x (1, vectors, k), with k at dim `along`, can be accessed in vectors of 16 bytes.
bool has_vectors(const ConstView& x, int along) {
  return cuda::has_vectors(x, along, static_cast<std::int64_t>(16 / size_of(x.dtype)));
}

bool is_matvec(const MatmulArgs& args) {
  const ConstView &x = args.a, &w = args.b;
  const bool has_activation = args.activation == Activation::none || args.activation == Activation::relu ||
                              args.activation == Activation::gelu_tanh;
  return x.shape[0] == 1 && x.shape[1] <= most_rows && x.shape[2] > 0 && x.shape[2] <= longest &&
         x.dtype != DType::f64 && !args.accumulates && has_activation && has_vectors(x, 2) && has_vectors(w, 1) &&
         (!args.bias.defined() || args.bias.dtype == args.y.dtype);
}

}  // namespace

bool matvec(const MatmulArgs& args) {
  if (!is_matvec(args)) return false;
  switch (args.a.dtype) {
    case DType::bf16:
      return launch<BFloat16>(args);
    case DType::f16:
      return launch<Half>(args);
    default:
      return launch<float>(args);
  }
}

}  // namespace bytetape::cuda
