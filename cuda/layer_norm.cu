// Layer normalisation. Up to 32 threads share a row, or a whole block where the row is long; they hold it in registers,
// so that it is read once, up to 8192 elements. A thread keeps its columns from row to row, and with them its share of
// the gradients of weight and bias.
#include <algorithm>

#include "bytetape/cuda/convert.cuh"
#include "bytetape/cuda/elementwise.cuh"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

template <int lanes, class T>
__device__ Packed<T, lanes> load(const T* from) {
  return Packed<T, lanes>::load(from);
}
/// The same where nothing is given.
template <int lanes, class C>
__device__ Packed<C, lanes> load_or(const C* from, std::int64_t at, C otherwise) {
  if (from) return load<lanes>(from + at);
  Packed<C, lanes> same;
  for (int k = 0; k < lanes; ++k) same.values[k] = otherwise;
  return same;
}
template <int lanes, class T>
__device__ void store(T* to, const Packed<T, lanes>& values) {
  values.store(to);
}

constexpr int wide_block = 512;

/// The sums of v over the threads of a row (x), in a fixed order; each of them gets them. Rows are side by side in a
/// warp, or one is the whole block; every thread of the block calls this.
template <int K, class C>
__device__ void sum_over_row(C (&v)[K]) {
  for (unsigned apart = min(blockDim.x, 32u) / 2; apart > 0; apart /= 2)
    for (int k = 0; k < K; ++k) v[k] += __shfl_xor_sync(~0u, v[k], apart);
  if (blockDim.x <= 32) return;
  __shared__ C shared[K][wide_block / 32];
  __syncthreads();  // all have read what was left last time
  if (threadIdx.x % 32 == 0)
    for (int k = 0; k < K; ++k) shared[k][threadIdx.x / 32] = v[k];
  __syncthreads();
  for (int k = 0; k < K; ++k) {
    C total = 0;
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) total += shared[k][warp];
    v[k] = total;
  }
}

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
      if (is_here(i))
        store(y + row * n + column(i), normalised(values[i], pivot, distance, r, weight, bias, column(i)));
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
      store(y + row * n + at, normalised(load<lanes>(from + at), pivot, distance, r, weight, bias, at));
    if (threadIdx.x == 0) {
      mean[row] = pivot + distance;
      rstd[row] = r;
    }
  }
}

/// Where the blocks' shares of gw and gb go, each `step` after the last; null for one that nobody asked for.
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

template <class T>
struct BackwardInputs {
  using C = compute_t<T>;
  const T *x, *gy;
  const C *weight, *mean, *rstd;
};

/// gx = r (g - share - h slope) of some neighbours, as below.
template <int lanes, class T, class C = compute_t<T>>
__device__ Packed<T, lanes> input_gradient(const Packed<T, lanes>& x, const Packed<T, lanes>& gy, C center, C r,
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
// gx = rstd (g - mean(g) - h mean(g h)).
template <class T, int lanes, int held, class C = compute_t<T>>
__global__ void __launch_bounds__(block_size)
    layer_norm_backward_kernel(std::int64_t rows, int n, BackwardInputs<T> in, T* gx, Shares<C> shares) {
  const auto column = [&](int i) { return static_cast<int>(threadIdx.x + i * blockDim.x) * lanes; };
  C gw[held][lanes] = {}, gb[held][lanes] = {};
  for (std::int64_t base = std::int64_t{blockIdx.x} * blockDim.y; base < rows;
       base += std::int64_t{gridDim.x} * blockDim.y) {
    const std::int64_t row = base + threadIdx.y;
    const bool is_row = row < rows;
    const auto is_here = [&](int i) { return is_row && column(i) < n; };
    const C center = is_row ? in.mean[row] : C(0), r = is_row ? in.rstd[row] : C(0);
    Packed<T, lanes> x[held], gy[held];
    for (int i = 0; i < held; ++i)
      if (is_here(i)) {
        x[i] = load<lanes>(in.x + row * n + column(i));
        gy[i] = load<lanes>(in.gy + row * n + column(i));
      }
    C sums[2] = {};
    for (int i = 0; i < held; ++i)
      if (is_here(i)) {
        const auto w = load_or<lanes>(in.weight, column(i), C(1));
        for (int k = 0; k < lanes; ++k) {
          const C h = (widened(x[i].values[k]) - center) * r, gradient = widened(gy[i].values[k]);
          const C g = gradient * w.values[k];
          gw[i][k] += gradient * h;
          gb[i][k] += gradient;
          sums[0] += g;
          sums[1] += g * h;
        }
      }
    if (!gx) continue;
    sum_over_row(sums);
    for (int i = 0; i < held; ++i)
      if (is_here(i))
        store(gx + row * n + column(i),
              input_gradient(x[i], gy[i], center, r, sums[0] / n, sums[1] / n, in.weight, column(i)));
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
  // block_size threads: those of a column add what its threads hold, one of `held` at a time.
  __shared__ C shared[2 * lanes][block_size];
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int i = 0; i < held; ++i) {
    if (static_cast<int>(i * blockDim.x) * lanes >= n) break;
    __syncthreads();
    for (int k = 0; k < lanes; ++k) {
      shared[k][thread] = gw[i][k];
      shared[lanes + k][thread] = gb[i][k];
    }
    __syncthreads();
    for (unsigned o = thread; o < 2 * lanes * blockDim.x; o += block_size) {
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

/// The same for rows that are too long to be held: a block's shares are added up where they go. Each column is one
/// thread's, so that none waits for another.
template <class T, int lanes, class C = compute_t<T>>
__global__ void __launch_bounds__(wide_block)
    wide_layer_norm_backward_kernel(std::int64_t rows, std::int64_t n, BackwardInputs<T> in, T* gx, Shares<C> shares) {
  const std::int64_t first = std::int64_t{threadIdx.x} * lanes, step = std::int64_t{blockDim.x} * lanes;
  C *const gw = shares.of_block(0), *const gb = shares.of_block(1);
  for (std::int64_t at = first; at < n; at += step)
    for (int k = 0; k < lanes; ++k) {
      if (gw) gw[at + k] = 0;
      if (gb) gb[at + k] = 0;
    }
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const C center = in.mean[row], r = in.rstd[row];
    const T *from_x = in.x + row * n, *from_gy = in.gy + row * n;
    C sums[2] = {};
    for (std::int64_t at = first; at < n; at += step) {
      const auto x = load<lanes>(from_x + at), gy = load<lanes>(from_gy + at);
      const auto w = load_or<lanes>(in.weight, at, C(1));
      for (int k = 0; k < lanes; ++k) {
        const C h = (widened(x.values[k]) - center) * r, gradient = widened(gy.values[k]);
        const C g = gradient * w.values[k];
        if (gw) gw[at + k] += gradient * h;
        if (gb) gb[at + k] += gradient;
        sums[0] += g;
        sums[1] += g * h;
      }
    }
    if (!gx) continue;
    sum_over_row(sums);
    const C share = sums[0] / static_cast<C>(n), slope = sums[1] / static_cast<C>(n);
    for (std::int64_t at = first; at < n; at += step)
      store(gx + row * n + at, input_gradient(load<lanes>(from_x + at), load<lanes>(from_gy + at), center, r, share,
                                              slope, in.weight, at));
  }
}

// A few columns a block, so that 32 bytes of a block's shares are read together, each by many threads.
constexpr int side_by_side = 8, sharing = block_size / side_by_side;

/// gw and gb of shares (blocks, 2, n).
template <class C>
__global__ void __launch_bounds__(block_size)
    add_shares_kernel(const C* shares, std::int64_t blocks, std::int64_t n, C* gw, C* gb) {
  const std::int64_t column = std::int64_t{blockIdx.x} * side_by_side + threadIdx.x % side_by_side;
  C* const to = column < n ? gw : gb;
  double sum = 0;
  if (column < 2 * n && to)
#pragma unroll 4
    for (std::int64_t b = threadIdx.x / side_by_side; b < blocks; b += sharing)
      sum += static_cast<double>(shares[b * 2 * n + column]);
  __shared__ double shared[block_size / 32][side_by_side];
  for (int apart = side_by_side; apart < 32; apart *= 2) sum += __shfl_xor_sync(~0u, sum, apart);
  if (threadIdx.x % 32 < side_by_side) shared[threadIdx.x / 32][threadIdx.x % 32] = sum;
  __syncthreads();
  if (threadIdx.x >= side_by_side || column >= 2 * n || !to) return;
  double total = 0;
  for (int warp = 0; warp < block_size / 32; ++warp) total += shared[warp][threadIdx.x];
  to[column < n ? column : column - n] = static_cast<C>(total);
}

/// Threads of a row: a power of two up to a warp's, or whole warps.
unsigned row_threads(std::int64_t vectors, int held) {
  if (vectors > std::int64_t{32} * held)
    return static_cast<unsigned>((vectors + std::int64_t{32} * held - 1) / (std::int64_t{32} * held) * 32);
  unsigned threads = 1;
  while (threads < 32 && threads < vectors) threads *= 2;
  return threads;
}

/// f(lanes, held, threads) for rows of n elements: how many neighbours a thread takes at once, how often, and the
/// threads (x) of as many rows (y) as a block takes; held is 0 where a row is too long.
template <class T, class F>
void with_layout(std::int64_t n, bool is_aligned, F&& f) {
  constexpr int most = 16 / sizeof(T), few = most > 4 ? 1 : 2, many = 4 * few, many_single = 8;
  const auto with = [&](auto lanes, auto held) {
    const unsigned x = row_threads(n / lanes, held);
    f(lanes, held, dim3(x, x > 32 ? 1 : block_size / x));
  };
  const auto fits = [&](int lanes, int held, int threads) {
    return n <= std::int64_t{lanes} * held * threads && n % lanes == 0;
  };
  using std::integral_constant;
  if (is_aligned && fits(most, few, 32))
    with(integral_constant<int, most>(), integral_constant<int, few>());
  else if (is_aligned && fits(most, many, block_size))
    with(integral_constant<int, most>(), integral_constant<int, many>());
  else if (is_aligned && n % most == 0)
    f(integral_constant<int, most>(), integral_constant<int, 0>(), dim3(wide_block));
  else if (fits(1, many_single, block_size))
    with(integral_constant<int, 1>(), integral_constant<int, many_single>());
  else
    f(integral_constant<int, 1>(), integral_constant<int, 0>(), dim3(wide_block));
}

template <class T>
bool aligned(std::initializer_list<const ConstView*> views) {
  return std::all_of(views.begin(), views.end(),
                     [](const ConstView* v) { return detail::is_aligned<T>(*v, static_cast<int>(16 / sizeof(T))); });
}
/// The same for coefficients, of which as many are taken at once.
template <class T>
bool coefficients_aligned(std::initializer_list<const ConstView*> views) {
  return std::all_of(views.begin(), views.end(), [](const ConstView* v) {
    return detail::is_aligned<compute_t<T>>(*v, static_cast<int>(16 / sizeof(T)));
  });
}

/// Blocks that keep the device busy with rows, of which each takes `at_once`.
unsigned row_blocks(std::int64_t rows, unsigned at_once, Device device) {
  return static_cast<unsigned>(std::min((rows + at_once - 1) / at_once, std::int64_t{processors(device)} * 16));
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

void layer_norm_backward(const LayerNormBackwardArgs& a, const Plan& plan, Workspace ws) {
  const std::int64_t rows = a.x.shape[0], n = a.x.shape[1], blocks = plan.algorithm;
  const bool shared = a.gw.defined() || a.gb.defined();
  if (n == 0 || (rows == 0 && !shared)) return;  // no rows: gw and gb are 0
  const cudaStream_t stream = stream_of(a.x.device);
  visit_floating(a.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const BackwardInputs<T> in{a.x.as<T>(), a.gy.as<T>(), a.weight.as<C>(), a.mean.as<C>(), a.rstd.as<C>()};
    C *const gw = a.gw.as<C>(), *const gb = a.gb.as<C>(), *const scratch = static_cast<C*>(ws.data);
    Shares<C> shares{gw, gb, 0};
    if (shared && blocks > 1) shares = {gw ? scratch : nullptr, gb ? scratch + n : nullptr, 2 * n};
    const bool is_aligned = aligned<T>({&a.x, &a.gy, &a.gx}) && coefficients_aligned<T>({&a.weight});
    with_layout<T>(n, is_aligned, [&](auto lanes, auto held, dim3 threads) {
      const unsigned grid = shared ? static_cast<unsigned>(blocks) : row_blocks(rows, threads.y, a.x.device);
      if constexpr (held == 0)
        wide_layer_norm_backward_kernel<T, lanes><<<grid, threads, 0, stream>>>(rows, n, in, a.gx.as<T>(), shares);
      else
        layer_norm_backward_kernel<T, lanes, held>
            <<<grid, threads, 0, stream>>>(rows, static_cast<int>(n), in, a.gx.as<T>(), shares);
    });
    check_launch();
    if (!shared || blocks == 1) return;
    const auto grid = static_cast<unsigned>((2 * n + side_by_side - 1) / side_by_side);
    add_shares_kernel<<<grid, block_size, 0, stream>>>(scratch, blocks, n, gw, gb);
    check_launch();
  });
}

}  // namespace

LayerNormKernels layer_norm_kernels() {
  return {
      .layer_norm = layer_norm,
      .layer_norm_backward = {plan, layer_norm_backward},
  };
}

}  // namespace bytetape::cuda
