#pragma once
// Gradients of layer normalisation, and without `centred` those of RMS normalisation, whose mean is 0. A thread keeps
// its columns from row to row, and accumulates its part of the gradients of weight and bias.
#include "bytetape/cuda/norm/layer_norm.cuh"
#include "bytetape/cuda/pointwise/columns.cuh"

namespace bytetape::cuda {
namespace row_norm {

/// The addresses of the blocks' sums for gw and gb, `step` elements apart. Null if a gradient is not needed.
template <class C>
struct Shares {
  C *gw, *gb;
  std::int64_t step;
  __device__ bool wanted() const { return gw || gb; }
  __device__ C* of_block(int which) const {
    C* const to = which == 0 ? gw : gb;
    return to ? to + blockIdx.x * step : nullptr;
  }
};

template <class T, class S, bool centred>
struct BackwardInputs {
  using C = compute_t<T>;
  const T* x;
  const S* gy;
  const T* addend;  // added to gx if `adds`, and may be gx
  const C *weight, *mean, *rstd;
  __device__ C center(std::int64_t row) const { return centred ? mean[row] : C(0); }
};

/// The gradient of the normalised tensor, and the same in the type of gy, each null if it is not needed.
template <class T, class S>
struct InputGradients {
  T* all;
  S* narrow;
  template <int lanes>
  __device__ void store(const Packed<T, lanes>& g, std::int64_t at) const {
    g.store(all + at);
    if constexpr (!std::is_same_v<T, S>)
      if (narrow) converted<S>(g).store(narrow + at);
  }
};

/// The sums of a row, and of columns over the rows: two, or one if rows are not centred.
template <bool centred>
inline constexpr int sums_of = centred ? 2 : 1;

// Returns a + b. The compiler may not fuse it with a product, so the product is rounded first.
__device__ inline float sum_of_rounded(float a, float b) { return __fadd_rn(a, b); }
__device__ inline double sum_of_rounded(double a, double b) { return __dadd_rn(a, b); }

template <int lanes, class T>
__device__ Packed<T, lanes> sum_of(Packed<T, lanes> v, const Packed<T, lanes>& more) {
  for (int k = 0; k < lanes; ++k)
    v.values[k] = narrowed<T>(sum_of_rounded(widened(v.values[k]), widened(more.values[k])));
  return v;
}

/// Returns r (g - share - h slope) for adjacent elements. layer_norm_backward_kernel() has the formula.
template <int lanes, class T, class S, class C = compute_t<T>>
__device__ Packed<T, lanes> input_gradient(const Packed<T, lanes>& x, const Packed<S, lanes>& gy, C center, C r,
                                           C share, C slope, const C* weight, std::int64_t at) {
  const auto w = load_or<lanes>(weight, at, C(1));
  Packed<T, lanes> gx;
  for (int k = 0; k < lanes; ++k) {
    const C h = (widened(x.values[k]) - center) * r;
    gx.values[k] = narrowed<T>((widened(gy.values[k]) * w.values[k] - share - h * slope) * r);
  }
  return gx;
}

// With h = (x - mean) rstd and g = gy weight: gb = sum(gy), gw = sum(gy h) over the rows, and in each row
// gx = rstd (g - mean(g) - h mean(g h)) + addend. Without `centred`, mean and mean(g) are 0, and there is no gb.
template <class T, class S, int lanes, int held, bool centred, bool adds, class C = compute_t<T>>
__global__ void __launch_bounds__(block_size, !adds && lanes * held * sizeof(C) <= 96 ? 2 : 1)
    layer_norm_backward_kernel(std::int64_t rows, int n, BackwardInputs<T, S, centred> in, InputGradients<T, S> gx,
                               Shares<C> shares) {
  constexpr int count = sums_of<centred>;
  const auto column = [&](int i) { return static_cast<int>(threadIdx.x + i * blockDim.x) * lanes; };
  C gw[held][lanes] = {}, gb[held][lanes] = {};
  for (std::int64_t base = std::int64_t{blockIdx.x} * blockDim.y; base < rows;
       base += std::int64_t{gridDim.x} * blockDim.y) {
    const std::int64_t row = base + threadIdx.y;
    const bool is_row = row < rows;
    const auto is_here = [&](int i) { return is_row && column(i) < n; };
    const C center = is_row ? in.center(row) : C(0), r = is_row ? in.rstd[row] : C(0);
    Packed<T, lanes> x[held];
    Packed<S, lanes> gy[held];
    for (int i = 0; i < held; ++i)
      if (is_here(i)) {
        x[i] = load<lanes>(in.x + row * n + column(i));
        gy[i] = load<lanes>(in.gy + row * n + column(i));
      }
    C sums[count] = {};
    for (int i = 0; i < held; ++i)
      if (is_here(i)) {
        const auto w = load_or<lanes>(in.weight, column(i), C(1));
        for (int k = 0; k < lanes; ++k) {
          const C h = (widened(x[i].values[k]) - center) * r, gradient = widened(gy[i].values[k]);
          const C g = gradient * w.values[k];
          gw[i][k] += gradient * h;
          if (centred) {
            gb[i][k] += gradient;
            sums[0] += g;
          }
          sums[count - 1] += g * h;
        }
      }
    if (!gx.all) continue;
    sum_over_row(sums);
    [[maybe_unused]] Packed<T, lanes> more[held];  // issues all loads before the first store, which may overwrite them
    if constexpr (adds)
      for (int i = 0; i < held; ++i)
        if (is_here(i)) more[i] = load<lanes>(in.addend + row * n + column(i));
    for (int i = 0; i < held; ++i)
      if (is_here(i)) {
        const C share = centred ? sums[0] / n : C(0), slope = sums[count - 1] / n;
        auto g = input_gradient(x[i], gy[i], center, r, share, slope, in.weight, column(i));
        if constexpr (adds) g = sum_of(g, more[i]);
        gx.store(g, row * n + column(i));
      }
  }
  if (!shares.wanted()) return;

  if (blockDim.y == 1) {
    for (int i = 0; i < held; ++i)
      for (int k = 0; k < lanes && column(i) < n; ++k) {
        if (shares.gw) shares.of_block(0)[column(i) + k] = gw[i][k];
        if (shares.gb) shares.of_block(1)[column(i) + k] = gb[i][k];
      }
    return;
  }
  // The block has block_size threads. The threads of a column add their values, one of `held` at a time.
  __shared__ C shared[count * lanes][block_size];
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int i = 0; i < held; ++i) {
    if (static_cast<int>(i * blockDim.x) * lanes >= n) break;
    __syncthreads();
    for (int k = 0; k < lanes; ++k) {
      shared[k][thread] = gw[i][k];
      if (centred) shared[(count - 1) * lanes + k][thread] = gb[i][k];
    }
    __syncthreads();
    for (unsigned o = thread; o < count * lanes * blockDim.x; o += block_size) {
      const unsigned number = o / blockDim.x, x = o % blockDim.x;
      const int to = static_cast<int>(x + i * blockDim.x) * lanes + static_cast<int>(number % lanes);
      C* const share = shares.of_block(static_cast<int>(number / lanes));
      if (!share || to >= n) continue;
      C total = 0;
      for (unsigned y = 0; y < blockDim.y; ++y) total += shared[number][y * blockDim.x + x];
      share[to] = total;
    }
  }
}

/// For rows that are too long for registers: a block adds its sums in memory. Each column belongs to one thread, so no
/// thread waits for another.
template <class T, class S, int lanes, bool centred, bool adds, class C = compute_t<T>>
__global__ void __launch_bounds__(wide_block)
    wide_layer_norm_backward_kernel(std::int64_t rows, std::int64_t n, BackwardInputs<T, S, centred> in,
                                    InputGradients<T, S> gx, Shares<C> shares) {
  constexpr int count = sums_of<centred>;
  const std::int64_t first = std::int64_t{threadIdx.x} * lanes, step = std::int64_t{blockDim.x} * lanes;
  C *const gw = shares.of_block(0), *const gb = shares.of_block(1);
  for (std::int64_t at = first; at < n; at += step)
    for (int k = 0; k < lanes; ++k) {
      if (gw) gw[at + k] = 0;
      if (gb) gb[at + k] = 0;
    }
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const C center = in.center(row), r = in.rstd[row];
    const T* const from_x = in.x + row * n;
    const S* const from_gy = in.gy + row * n;
    C sums[count] = {};
    for (std::int64_t at = first; at < n; at += step) {
      const auto x = load<lanes>(from_x + at);
      const auto gy = load<lanes>(from_gy + at);
      const auto w = load_or<lanes>(in.weight, at, C(1));
      for (int k = 0; k < lanes; ++k) {
        const C h = (widened(x.values[k]) - center) * r, gradient = widened(gy.values[k]);
        const C g = gradient * w.values[k];
        if (gw) gw[at + k] += gradient * h;
        if (gb) gb[at + k] += gradient;
        if (centred) sums[0] += g;
        sums[count - 1] += g * h;
      }
    }
    if (!gx.all) continue;
    sum_over_row(sums);
    const C share = centred ? sums[0] / static_cast<C>(n) : C(0), slope = sums[count - 1] / static_cast<C>(n);
    for (std::int64_t at = first; at < n; at += step) {
      auto g =
          input_gradient(load<lanes>(from_x + at), load<lanes>(from_gy + at), center, r, share, slope, in.weight, at);
      if constexpr (adds) g = sum_of(g, load<lanes>(in.addend + row * n + at));
      gx.store(g, row * n + at);
    }
  }
}

template <class T, class S, bool centred, bool adds>
void launch_backward(const LayerNormBackwardArgs& a, std::int64_t blocks, void* ws) {
  using C = compute_t<T>;
  const std::int64_t rows = a.x.shape[0], n = a.x.shape[1];
  const bool shared = a.gw.defined() || a.gb.defined();
  const cudaStream_t stream = stream_of(a.x.device);
  const BackwardInputs<T, S, centred> in{a.x.as<T>(),      a.gy.as<S>(),   a.addend.as<T>(),
                                         a.weight.as<C>(), a.mean.as<C>(), a.rstd.as<C>()};
  const InputGradients<T, S> gx{a.gx.as<T>(), a.narrow_gx.as<S>()};
  C *const gw = a.gw.as<C>(), *const gb = a.gb.as<C>(), *const scratch = static_cast<C*>(ws);
  Shares<C> shares{gw, gb, 0};
  if (shared && blocks > 1) shares = {gw ? scratch : nullptr, gb ? scratch + n : nullptr, sums_of<centred> * n};
  const bool is_aligned =
      are_aligned({&a.x, &a.gy, &a.gx, &a.addend, &a.narrow_gx}) && cuda::is_aligned(a.weight, coefficient_bytes<T>);
  with_layout<T>(n, is_aligned, [&](auto lanes, auto held, dim3 threads) {
    const unsigned grid = shared ? static_cast<unsigned>(blocks) : row_blocks(rows, threads.y, a.x.device);
    if constexpr (held == 0)
      wide_layer_norm_backward_kernel<T, S, lanes, centred, adds>
          <<<grid, threads, 0, stream>>>(rows, n, in, gx, shares);
    else
      layer_norm_backward_kernel<T, S, lanes, held, centred, adds>
          <<<grid, threads, 0, stream>>>(rows, static_cast<int>(n), in, gx, shares);
  });
  check_launch();
  if (!shared || blocks == 1) return;
  add_shares<sums_of<centred>>(scratch, blocks, n, gw, gb, stream);
}

}  // namespace row_norm

/// Computes the gradients of normalise_rows<centred>(). Without `centred` there is no addend.
template <bool centred>
void normalise_rows_backward(const LayerNormBackwardArgs& a, const Plan& plan, Workspace ws) {
  const std::int64_t rows = a.x.shape[0], n = a.x.shape[1];
  const bool shared = a.gw.defined() || a.gb.defined();
  if (n == 0 || (rows == 0 && !shared)) return;  // without rows, gw and gb are 0
  if constexpr (centred) {
    visit_norm_types(a.x.dtype, a.gy.dtype, [&](auto x, auto gy) {
      using T = decltype(x);
      using S = decltype(gy);
      a.addend.defined() ? row_norm::launch_backward<T, S, true, true>(a, plan.algorithm, ws.data)
                         : row_norm::launch_backward<T, S, true, false>(a, plan.algorithm, ws.data);
    });
  } else {
    visit_floating(a.x.dtype, [&](auto zero) {
      row_norm::launch_backward<decltype(zero), decltype(zero), false, false>(a, plan.algorithm, ws.data);
    });
  }
}

}  // namespace bytetape::cuda
