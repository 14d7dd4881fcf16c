#pragma once
// Forward of layer normalisation. RMS normalisation is the same with a mean of 0, for which nothing is `centred`.
#include "bytetape/cuda/norm/layer_norm.cuh"
#include "bytetape/cuda/runtime/overlap.cuh"

namespace bytetape::cuda {
namespace row_norm {

// Returns a * b. The compiler may not fuse it with a sum, so the bits do not depend on which coefficients there are.
__device__ inline float rounded_product(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double rounded_product(double a, double b) { return __dmul_rn(a, b); }

/// Computes y = (x - mean) r w + b for adjacent elements, with x - mean = x - pivot - distance.
template <class S, int lanes, class T, class C>
__device__ Packed<S, lanes> normalised(const Packed<T, lanes>& x, C pivot, C distance, C r, const Packed<C, lanes>& w,
                                       const Packed<C, lanes>& b) {
  Packed<S, lanes> y;
  for (int k = 0; k < lanes; ++k)
    y.values[k] =
        narrowed<S>(::fma(rounded_product(widened(x.values[k]) - pivot - distance, r), w.values[k], b.values[k]));
  return y;
}

/// The kernels' arguments. residual and sum are used if `adds`. S is the type of x and y, and W that of weight and
/// bias.
template <class T, class S, class W, bool centred, bool adds, class C = compute_t<T>>
struct Forward {
  const S* x;
  const T* residual;
  const W *weight, *bias;
  C eps;
  S* y;
  T* sum;
  C *mean, *rstd;

  explicit Forward(const LayerNormArgs& a)
      : x(a.x.as<S>()),
        residual(a.residual.as<T>()),
        weight(a.weight.as<W>()),
        bias(a.bias.as<W>()),
        eps(static_cast<C>(a.eps)),
        y(a.y.as<S>()),
        sum(a.sum.as<T>()),
        mean(a.mean.as<C>()),
        rstd(a.rstd.as<C>()) {}

  /// Adds adjacent elements of x and the residual, and stores the sum.
  template <int lanes>
  __device__ Packed<T, lanes> add(Packed<T, lanes> v, const Packed<T, lanes>& r, std::int64_t at) const {
    for (int k = 0; k < lanes; ++k) v.values[k] = narrowed<T>(widened(v.values[k]) + widened(r.values[k]));
    v.store(sum + at);
    return v;
  }
  /// Returns the first element of the row that starts at `at`, or 0 if rows are not centred.
  __device__ C pivot(std::int64_t at) const {
    if (!centred) return 0;
    return adds ? widened(narrowed<T>(widened(x[at]) + widened(residual[at]))) : widened(x[at]);
  }
  __device__ const T* normalised() const {
    if constexpr (adds)
      return sum;
    else
      return x;
  }
  /// Starts to load n coefficients, as they are used only after the sums of a row: `load` gets an address in each cache
  /// line. The block has a thread for each.
  template <class F>
  __device__ void prefetch_coefficients(int n, const F& load) const {
    constexpr int line = 128 / sizeof(W);
    const int at = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x) * line;
    if (at >= n) return;
    if (weight) load(weight + at);
    if (bias) load(bias + at);
  }
  template <int lanes>
  __device__ Packed<C, lanes> weights(std::int64_t at) const {
    return load_or<lanes>(weight, at, C(1));
  }
  template <int lanes>
  __device__ Packed<C, lanes> biases(std::int64_t at) const {
    return load_or<lanes>(bias, at, C(0));
  }
  /// Stores the statistics of a row.
  __device__ void store(std::int64_t row, C center, C r) const {
    if (centred) mean[row] = center;
    rstd[row] = r;
  }
};

// Means are of differences from the row's first element, its pivot. Without a pivot, rounding of large values would
// hide small differences. Whole blocks loop over rows, because sum_over_row() needs all threads.
//
// If `early`, coefficients are loaded to registers before the kernel waits for earlier work.
template <class T, class S, class W, int lanes, int held, bool centred, bool adds, bool early, class C = compute_t<T>>
__global__ void __launch_bounds__(block_size)
    layer_norm_kernel(Turn turn, std::int64_t rows, int n, Forward<T, S, W, centred, adds> f) {
  Packed<C, lanes> weights[early ? held : 1], biases[early ? held : 1];
  if constexpr (early) {
    for (int i = 0; i < held; ++i) {
      const int at = static_cast<int>(threadIdx.x + i * blockDim.x) * lanes;
      if (at >= n) continue;
      weights[i] = f.template weights<lanes>(at);
      biases[i] = f.template biases<lanes>(at);
    }
  } else {
    f.prefetch_coefficients(n, [](const W* line) { prefetch_to_l2(line); });
  }
  wait_for_earlier_work(turn);
  if constexpr (!early) f.prefetch_coefficients(n, [](const W* line) { prefetch_to_l1(line); });
  for (std::int64_t base = std::int64_t{blockIdx.x} * blockDim.y; base < rows;
       base += std::int64_t{gridDim.x} * blockDim.y) {
    const std::int64_t row = base + threadIdx.y;
    const bool is_row = row < rows;
    const auto column = [&](int i) { return static_cast<int>(threadIdx.x + i * blockDim.x) * lanes; };
    const auto is_here = [&](int i) { return is_row && column(i) < n; };
    const C pivot = is_row ? f.pivot(row * n) : C(0);
    Packed<T, lanes> values[held];
    for (int i = 0; i < held; ++i)
      if (is_here(i)) values[i] = converted<T>(load<lanes>(f.x + row * n + column(i)));
    if constexpr (adds) {
      Packed<T, lanes> more[held];  // issues all loads before the first store
      for (int i = 0; i < held; ++i)
        if (is_here(i)) more[i] = load<lanes>(f.residual + row * n + column(i));
      for (int i = 0; i < held; ++i)
        if (is_here(i)) values[i] = f.add(values[i], more[i], row * n + column(i));
    }

    C distance = 0;
    if constexpr (centred) {
      C sum[1] = {};
      for (int i = 0; i < held; ++i)
        if (is_here(i))
          for (int k = 0; k < lanes; ++k) sum[0] += widened(values[i].values[k]) - pivot;
      sum_over_row(sum);
      distance = sum[0] / n;
    }

    C m2[1] = {};
    for (int i = 0; i < held; ++i)
      if (is_here(i))
        for (int k = 0; k < lanes; ++k) {
          const C v = widened(values[i].values[k]) - pivot - distance;
          m2[0] += v * v;
        }
    sum_over_row(m2);
    const C r = 1 / ::sqrt(m2[0] / n + f.eps);

    for (int i = 0; i < held; ++i) {
      if (!is_here(i)) continue;
      if constexpr (early)
        normalised<S>(values[i], pivot, distance, r, weights[i], biases[i]).store(f.y + row * n + column(i));
      else
        normalised<S>(values[i], pivot, distance, r, f.template weights<lanes>(column(i)),
                      f.template biases<lanes>(column(i)))
            .store(f.y + row * n + column(i));
    }
    if (is_row && threadIdx.x == 0) f.store(row, pivot + distance, r);
  }
}

/// For rows that are too long for registers: a block reads the row three times. A thread keeps its columns, so it reads
/// only sums that it wrote itself.
template <class T, class S, class W, int lanes, bool centred, bool adds, class C = compute_t<T>>
__global__ void __launch_bounds__(wide_block)
    wide_layer_norm_kernel(std::int64_t rows, std::int64_t n, Forward<T, S, W, centred, adds> f) {
  const std::int64_t first = std::int64_t{threadIdx.x} * lanes, step = std::int64_t{blockDim.x} * lanes;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* const from = f.normalised() + row * n;
    const C pivot = f.pivot(row * n);
    C distance = 0;
    if constexpr (centred) {
      C sum[1] = {};
      for (std::int64_t at = first; at < n; at += step) {
        auto v = converted<T>(load<lanes>(f.x + row * n + at));
        if constexpr (adds) v = f.add(v, load<lanes>(f.residual + row * n + at), row * n + at);
        for (int k = 0; k < lanes; ++k) sum[0] += widened(v.values[k]) - pivot;
      }
      sum_over_row(sum);
      distance = sum[0] / static_cast<C>(n);
    }
    C m2[1] = {};
    for (std::int64_t at = first; at < n; at += step) {
      const auto v = load<lanes>(from + at);
      for (int k = 0; k < lanes; ++k) {
        const C d = widened(v.values[k]) - pivot - distance;
        m2[0] += d * d;
      }
    }
    sum_over_row(m2);
    const C r = 1 / ::sqrt(m2[0] / static_cast<C>(n) + f.eps);
    for (std::int64_t at = first; at < n; at += step)
      normalised<S>(load<lanes>(from + at), pivot, distance, r, f.template weights<lanes>(at),
                    f.template biases<lanes>(at))
          .store(f.y + row * n + at);
    if (threadIdx.x == 0) f.store(row, pivot + distance, r);
  }
}

/// Rows whose kernel may read early. It takes more registers, which would leave fewer rows in flight if there are many.
inline constexpr std::int64_t few_rows = 64;

template <class T, class S, class W, int lanes, int held, bool centred, bool adds>
auto kernel_for([[maybe_unused]] bool reads_early) {
  if constexpr (adds)
    if (reads_early) return layer_norm_kernel<T, S, W, lanes, held, centred, adds, true>;
  return layer_norm_kernel<T, S, W, lanes, held, centred, adds, false>;
}

template <class T, class S, class W, bool centred, bool adds>
void launch_forward(const LayerNormArgs& a) {
  const std::int64_t rows = a.x.shape[0], n = a.x.shape[1];
  const bool reads_early = rows <= few_rows && may_read_early(a.weight, a.bias);
  const Forward<T, S, W, centred, adds> f(a);
  const bool is_aligned =
      are_aligned({&a.x, &a.y, &a.residual, &a.sum}) && are_aligned({&a.weight, &a.bias}, coefficient_bytes<T, W>);
  with_layout<T>(n, is_aligned, [&](auto lanes, auto held, dim3 threads) {
    const unsigned blocks = row_blocks(rows, threads.y, a.x.device);
    if constexpr (held == 0)
      wide_layer_norm_kernel<T, S, W, lanes, centred, adds><<<blocks, threads, 0, stream_of(a.x.device)>>>(rows, n, f);
    else
      launch_overlapping(
          {.device = a.x.device, .blocks = blocks, .threads = threads, .writes = {&a.y, &a.sum, &a.mean, &a.rstd}},
          kernel_for<T, S, W, lanes, held, centred, adds>(reads_early), rows, static_cast<int>(n), f);
  });
  check_launch();
}

/// Launches the kernel for the type of the coefficients: S if they have 16 bits, else the compute type of T.
template <class T, class S, bool centred, bool adds>
void launch_forward(const LayerNormArgs& a) {
  if constexpr (sizeof(S) == 2)
    if (size_of((a.weight.defined() ? a.weight : a.bias).dtype) == 2) return launch_forward<T, S, S, centred, adds>(a);
  launch_forward<T, S, compute_t<T>, centred, adds>(a);
}

}  // namespace row_norm

/// Normalises the rows of x. Without `centred` there is no residual.
template <bool centred>
void normalise_rows(const LayerNormArgs& a) {
  if (a.x.numel() == 0) return;
  if constexpr (centred)
    if (a.residual.defined())
      return visit_norm_types(a.sum.dtype, a.y.dtype, [&](auto normalised, auto y) {
        row_norm::launch_forward<decltype(normalised), decltype(y), true, true>(a);
      });
  visit_floating(a.x.dtype,
                 [&](auto zero) { row_norm::launch_forward<decltype(zero), decltype(zero), centred, false>(a); });
}

}  // namespace bytetape::cuda
