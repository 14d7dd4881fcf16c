// The result of layer normalisation, and its table.
#include "bytetape/cuda/layer_norm.cuh"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

/// y = (x - mean) r weight + bias of some neighbours, with x - mean = x - pivot - distance.
template <int lanes, class T, class C = compute_t<T>>
__device__ Packed<T, lanes> normalised(const Packed<T, lanes>& x, C pivot, C distance, C r, const C* weight,
                                       const C* bias, std::int64_t at) {
  const auto w = load_or<lanes>(weight, at, C(1)), b = load_or<lanes>(bias, at, C(0));
  Packed<T, lanes> y;
  for (int k = 0; k < lanes; ++k)
    y.values[k] = narrowed<T>((widened(x.values[k]) - pivot - distance) * r * w.values[k] + b.values[k]);
  return y;
}

// Means are of distances from the row's first element, its pivot: a sum of values far from zero would lose what lies
// between them. Rows are looped over by whole blocks, so that all threads meet in sum_over_row.
template <class T, int lanes, int held, class C = compute_t<T>>
__global__ void __launch_bounds__(block_size) layer_norm_kernel(std::int64_t rows, int n, const T* x, const C* weight,
                                                                const C* bias, C eps, T* y, C* mean, C* rstd) {
  for (std::int64_t base = std::int64_t{blockIdx.x} * blockDim.y; base < rows;
       base += std::int64_t{gridDim.x} * blockDim.y) {
    const std::int64_t row = base + threadIdx.y;
    const bool is_row = row < rows;
    const auto column = [&](int i) { return static_cast<int>(threadIdx.x + i * blockDim.x) * lanes; };
    const auto is_here = [&](int i) { return is_row && column(i) < n; };
    const T* from = x + row * n;
    const C pivot = is_row ? widened(from[0]) : C(0);
    Packed<T, lanes> values[held];
    for (int i = 0; i < held; ++i)
      if (is_here(i)) values[i] = load<lanes>(from + column(i));

    C sum[1] = {};
    for (int i = 0; i < held; ++i)
      if (is_here(i))
        for (int k = 0; k < lanes; ++k) sum[0] += widened(values[i].values[k]) - pivot;
    sum_over_row(sum);
    const C distance = sum[0] / n;

    C m2[1] = {};
    for (int i = 0; i < held; ++i)
      if (is_here(i))
        for (int k = 0; k < lanes; ++k) {
          const C v = widened(values[i].values[k]) - pivot - distance;
          m2[0] += v * v;
        }
    sum_over_row(m2);
    const C r = 1 / ::sqrt(m2[0] / n + eps);

    for (int i = 0; i < held; ++i)
      if (is_here(i)) normalised(values[i], pivot, distance, r, weight, bias, column(i)).store(y + row * n + column(i));
    if (is_row && threadIdx.x == 0) {
      mean[row] = pivot + distance;
      rstd[row] = r;
    }
  }
}

/// The same for rows that are too long to be held: read three times, by a block.
template <class T, int lanes, class C = compute_t<T>>
__global__ void __launch_bounds__(wide_block)
    wide_layer_norm_kernel(std::int64_t rows, std::int64_t n, const T* x, const C* weight, const C* bias, C eps, T* y,
                           C* mean, C* rstd) {
  const std::int64_t first = std::int64_t{threadIdx.x} * lanes, step = std::int64_t{blockDim.x} * lanes;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* from = x + row * n;
    const C pivot = widened(from[0]);
    C sum[1] = {};
    for (std::int64_t at = first; at < n; at += step) {
      const auto v = load<lanes>(from + at);
      for (int k = 0; k < lanes; ++k) sum[0] += widened(v.values[k]) - pivot;
    }
    sum_over_row(sum);
    const C distance = sum[0] / static_cast<C>(n);
    C m2[1] = {};
    for (std::int64_t at = first; at < n; at += step) {
      const auto v = load<lanes>(from + at);
      for (int k = 0; k < lanes; ++k) {
        const C d = widened(v.values[k]) - pivot - distance;
        m2[0] += d * d;
      }
    }
    sum_over_row(m2);
    const C r = 1 / ::sqrt(m2[0] / static_cast<C>(n) + eps);
    for (std::int64_t at = first; at < n; at += step)
      normalised(load<lanes>(from + at), pivot, distance, r, weight, bias, at).store(y + row * n + at);
    if (threadIdx.x == 0) {
      mean[row] = pivot + distance;
      rstd[row] = r;
    }
  }
}

void layer_norm(const ConstView& x, const ConstView& weight, const ConstView& bias, double eps, const View& y,
                const View& mean, const View& rstd) {
  const std::int64_t rows = x.shape[0], n = x.shape[1];
  if (rows == 0 || n == 0) return;
  const cudaStream_t stream = stream_of(x.device);
  visit_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const bool is_aligned = aligned<T>({&x, &y}) && coefficients_aligned<T>({&weight, &bias});
    with_layout<T>(n, is_aligned, [&](auto lanes, auto held, dim3 threads) {
      const unsigned blocks = row_blocks(rows, threads.y, x.device);
      if constexpr (held == 0)
        wide_layer_norm_kernel<T, lanes><<<blocks, threads, 0, stream>>>(rows, n, x.as<T>(), weight.as<C>(),
                                                                         bias.as<C>(), static_cast<C>(eps), y.as<T>(),
                                                                         mean.as<C>(), rstd.as<C>());
      else
        layer_norm_kernel<T, lanes, held>
            <<<blocks, threads, 0, stream>>>(rows, static_cast<int>(n), x.as<T>(), weight.as<C>(), bias.as<C>(),
                                             static_cast<C>(eps), y.as<T>(), mean.as<C>(), rstd.as<C>());
    });
  });
  check_launch();
}

}  // namespace

LayerNormKernels layer_norm_kernels() {
  return {
      .layer_norm = layer_norm,
      .layer_norm_backward = {plan, layer_norm_backward},
  };
}

}  // namespace bytetape::cuda
