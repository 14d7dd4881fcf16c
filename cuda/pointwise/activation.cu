// The gradients of an activation and of a bias, in one pass over gy. A thread keeps its columns from row to row. It
// adds a few rows at a time in the computed type, and adds these sums in f64. The threads of a column combine in a
// tree. Blocks that share rows leave their sums to a second launch.
#include "bytetape/core/kernels/activation.h"
#include "bytetape/core/visit.h"
#include "bytetape/cuda/alignment.h"
#include "bytetape/cuda/conv/bias_grad.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/pointwise/columns.cuh"
#include "bytetape/cuda/pointwise/convert.cuh"
#include "bytetape/cuda/pointwise/gelu.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

constexpr int threads = BiasGradLayout::threads, warp = BiasGradLayout::warp, unroll = BiasGradLayout::unroll;

/// The matrices for an activation's gradient. Without an activation, gy alone is used.
template <class T>
struct Matrices {
  const T *gy, *saved;
  T* through;
};

/// Returns gy after the activation's gradient, rounded to T.
template <Activation activation, class T, class C = compute_t<T>>
__device__ C come_through(T saved, C gy) {
  if constexpr (activation == Activation::relu)
    return widened(saved) <= 0 ? C(0) : gy;
  else
    return widened(narrowed<T>(GeluTanhBackward<T>()(widened(saved), gy)));
}

/// gb, stored in T or in the compute type of T.
template <class T>
struct BiasGrad {
  void* data;
  bool is_wide;
  __device__ void set(std::int64_t i, double sum) const {
    const auto v = static_cast<compute_t<T>>(sum);
    if (is_wide)
      static_cast<compute_t<T>*>(data)[i] = v;
    else
      static_cast<T*>(data)[i] = narrowed<T>(v);
  }
};

/// Loads a thread's columns of a row: adjacent and aligned, or at most `count` columns at any address.
template <bool is_vector, int n, class T>
__device__ Packed<T, n> load_columns(const T* from, std::int64_t count) {
  if constexpr (is_vector) {
    return Packed<T, n>::load(from);
  } else {
    Packed<T, n> read{};
    for (int k = 0; k < n; ++k)
      if (k < count) read.values[k] = from[k];
    return read;
  }
}
template <bool is_vector, int n, class T>
__device__ void store_columns(const Packed<T, n>& values, T* to, std::int64_t count) {
  if constexpr (is_vector) {
    values.store(to);
  } else {
    for (int k = 0; k < n; ++k)
      if (k < count) to[k] = values.values[k];
  }
}

/// Block (i, s) sums some columns of split s. With one split, the sums are the result. With several, they are partial
/// results, row-major (splits, columns).
template <class T, Activation activation, bool is_vector>
__global__ void __launch_bounds__(threads, BiasGradLayout::resident)
    bias_grad_kernel(BiasGradLayout layout, Matrices<T> m, BiasGrad<T> gb, double* partials) {
  constexpr int n = BiasGradLayout::lanes(sizeof(T));
  constexpr bool activates = activation != Activation::none;
  using C = compute_t<T>;
  const int across = layout.across, along = threads / across;
  const std::int64_t first = std::int64_t{blockIdx.x} * across * n;
  const std::int64_t column = first + static_cast<int>(threadIdx.x) % across * n, count = layout.columns - column;
  const std::int64_t begin = blockIdx.y * layout.chunk;
  const std::int64_t end = count > 0 ? min(begin + layout.chunk, layout.rows) : begin;
  double totals[n] = {};
  for (std::int64_t row = begin + static_cast<int>(threadIdx.x) / across; row < end; row += unroll * along) {
    Packed<T, n> gy[unroll];
    [[maybe_unused]] Packed<T, n> saved[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const std::int64_t at = min(row + u * along, end - 1) * layout.columns + column;
      gy[u] = load_columns<is_vector, n>(m.gy + at, count);
      if constexpr (activates) saved[u] = load_columns<is_vector, n>(m.saved + at, count);
    }
    C sums[n] = {};
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      if (row + u * along >= end) continue;
#pragma unroll
      for (int k = 0; k < n; ++k) {
        C v = widened(gy[u].values[k]);
        if constexpr (activates) {
          v = come_through<activation>(saved[u].values[k], v);
          gy[u].values[k] = narrowed<T>(v);
        }
        sums[k] += v;
      }
      if constexpr (activates)
        store_columns<is_vector, n>(gy[u], m.through + (row + u * along) * layout.columns + column, count);
    }
#pragma unroll
    for (int k = 0; k < n; ++k) totals[k] += static_cast<double>(sums[k]);
  }
  const double sum = sum_columns<warp>(totals, across);
  const std::int64_t to = first + threadIdx.x;
  if (static_cast<int>(threadIdx.x) >= across * n || to >= layout.columns) return;
  if (partials)
    partials[blockIdx.y * layout.columns + to] = sum;
  else
    gb.set(to, sum);
}

template <class T>
__global__ void __launch_bounds__(block_size)
    add_splits_kernel(const double* partials, std::int64_t splits, std::int64_t columns, BiasGrad<T> gb) {
  const std::int64_t column = column_of_thread();
  double sum = 0;
  if (column < columns)
#pragma unroll 4
    for (std::int64_t s = row_of_thread(); s < splits; s += sharing) sum += partials[s * columns + column];
  sum = sum_of_column(sum);
  if (row_of_thread() == 0 && column < columns) gb.set(column, sum);
}

template <class T, Activation activation>
void launch(const BiasGradArgs& a, void* ws) {
  const BiasGradLayout layout(a.gy);
  const bool is_vector =
      layout.columns % BiasGradLayout::lanes(sizeof(T)) == 0 && are_aligned({&a.gy, &a.saved, &a.through});
  const BiasGrad<T> gb{a.gb.data(), a.gb.dtype != a.gy.dtype};
  auto* partials = layout.splits > 1 ? static_cast<double*>(ws) : nullptr;
  const dim3 grid(static_cast<unsigned>(layout.blocks), static_cast<unsigned>(layout.splits));
  const cudaStream_t stream = stream_of(a.gy.device);
  const auto kernel = is_vector ? bias_grad_kernel<T, activation, true> : bias_grad_kernel<T, activation, false>;
  kernel<<<grid, threads, 0, stream>>>(layout, {a.gy.as<T>(), a.saved.as<T>(), a.through.as<T>()}, gb, partials);
  check_launch();
  if (!partials) return;
  add_splits_kernel<<<column_blocks(layout.columns), block_size, 0, stream>>>(partials, layout.splits, layout.columns,
                                                                              gb);
  check_launch();
}

void bias_grad(const BiasGradArgs& a, const Plan&, Workspace ws) {
  if (a.gb.numel() == 0) return;
  visit_floating(a.gy.dtype, [&](auto zero) {
    using T = decltype(zero);
    switch (a.activation) {
      case Activation::none:
        return launch<T, Activation::none>(a, ws.data);
      case Activation::relu:
        return launch<T, Activation::relu>(a, ws.data);
      case Activation::gelu_tanh:
        return launch<T, Activation::gelu_tanh>(a, ws.data);
    }
  });
}

}  // namespace

const ActivationKernels& activation_kernels() {
  static const ActivationKernels all{.bias_grad = {activation_plans().bias_grad.plan, bias_grad}};
  return all;
}

}  // namespace bytetape::cuda
