// Batch normalisation. A block's threads stand side by side along the channels where those are adjacent in memory
// (channels-last images, rows of features), else along the pixels; each keeps its channels and walks pixels. Sums over
// pixels are made in runs, of a block each, in the first launch, and put together in a fixed order in a second.
#include <array>

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

/// One for each channel, in T or the type that T is accumulated in; null where none is given.
template <class T>
struct PerChannel {
  const void* data;
  std::int64_t stride;
  bool is_wide;

  explicit PerChannel(const ConstView& v)
      : data(v.data()), stride(data ? v.strides[0] : 0), is_wide(v.dtype != dtype_of<T>) {}
  __device__ compute_t<T> at(std::int64_t c, compute_t<T> otherwise) const {
    if (!data) return otherwise;
    return is_wide ? static_cast<const compute_t<T>*>(data)[c * stride]
                   : widened(static_cast<const T*>(data)[c * stride]);
  }
};

/// The same to write; what nobody asked for is dropped.
template <class T>
struct ChannelResult {
  void* data;
  std::int64_t stride;
  bool is_wide;

  explicit ChannelResult(const View& v)
      : data(v.data()), stride(data ? v.strides[0] : 0), is_wide(v.dtype != dtype_of<T>) {}
  __device__ void set(std::int64_t c, double v) const {
    if (!data) return;
    if (is_wide)
      static_cast<compute_t<T>*>(data)[c * stride] = static_cast<compute_t<T>>(v);
    else
      static_cast<T*>(data)[c * stride] = narrowed<T>(static_cast<compute_t<T>>(v));
  }
};

/// a / b; the 32-bit division is several times as fast.
__device__ std::int64_t quotient(std::int64_t a, std::int64_t b) {
  return ((a | b) >> 32) == 0 ? static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b) : a / b;
}

/// Pixels (n, h, w) of K images of one shape, in the order in which those of the first lie.
template <std::size_t K>
struct Pixels {
  std::int64_t count, channels, channel_strides[K];
  int rank;
  std::int64_t sizes[3], strides[K][3];

  explicit Pixels(const std::array<const ConstView*, K>& images) : channels(images[0]->shape[1]) {
    std::array<Strides, K> steps;
    std::array<const Strides*, K> operands;
    for (std::size_t k = 0; k < K; ++k) {
      const Strides& s = images[k]->strides;
      channel_strides[k] = s[1];
      steps[k] = {s[0], s[2], s[3]};
      operands[k] = &steps[k];
    }
    const Shape& shape = images[0]->shape;
    Walk<K> walk({shape[0], shape[2], shape[3]}, operands);
    walk.complete();
    count = numel(walk.shape);
    rank = walk.shape.size();
    for (int d = 0; d < rank; ++d) {
      sizes[d] = walk.shape[d];
      for (std::size_t k = 0; k < K; ++k) strides[k][d] = walk.strides[k][d];
    }
  }
  bool channels_adjacent() const { return channels > 1 && channel_strides[0] == 1; }
  /// True where each pixel's channels can be taken `lanes` at a time, and pixels by one step, from aligned memory.
  bool fits(int lanes) const {
    bool fits = rank == 1 && channels % lanes == 0;
    for (std::size_t k = 0; k < K; ++k) fits = fits && channel_strides[k] == 1 && strides[k][0] % lanes == 0;
    return fits;
  }
  /// Offsets of pixel p's first channel.
  template <int lanes>
  __device__ void find(std::int64_t p, std::int64_t (&at)[K]) const {
    for (std::size_t k = 0; k < K; ++k) at[k] = 0;
    if constexpr (lanes == 1)
#pragma unroll
      for (int d = 2; d > 0; --d) {  // unrolled: what is indexed by a variable is copied to memory first
        if (d >= rank) continue;
        const std::int64_t rest = quotient(p, sizes[d]), i = p - rest * sizes[d];
        for (std::size_t k = 0; k < K; ++k) at[k] += i * strides[k][d];
        p = rest;
      }
    for (std::size_t k = 0; k < K; ++k) at[k] += p * strides[k][0];
  }
};

/// Calls f with the number of channels that a thread takes at once: those of 16 bytes, or one.
template <class T, std::size_t K, class F>
void with_lanes(const Pixels<K>& pixels, const std::array<const ConstView*, K>& images, F&& f) {
  constexpr int most = 16 / sizeof(T);
  bool fits = pixels.fits(most);
  for (const ConstView* image : images) fits = fits && detail::is_aligned<T>(*image, most);
  if (fits)
    f(std::integral_constant<int, most>());
  else
    f(std::integral_constant<int, 1>());
}

/// How blocks of block_size threads lie over channels (x) and pixels (y): powers of two.
struct Tiles {
  unsigned count;  // side by side, that cover the channels
  dim3 threads;

  template <std::size_t K>
  Tiles(const Pixels<K>& pixels, int lanes) : threads(1, block_size) {
    const std::int64_t vectors = (pixels.channels + lanes - 1) / lanes;
    if (pixels.channels_adjacent())
      while (threads.x < 32 && threads.x < vectors) threads.x *= 2;
    threads.y = block_size / threads.x;
    count = static_cast<unsigned>((vectors + threads.x - 1) / threads.x);
  }
};

/// The first of the channels of this thread.
template <int lanes>
__device__ std::int64_t first_channel() {
  return (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * lanes;
}

/// Merges what the threads of a block hold for the same channels into the first of them.
template <class A>
__device__ void merge_rows(A& mine) {
  __shared__ typename A::Number shared[A::size][block_size];
  const unsigned at = threadIdx.y * blockDim.x + threadIdx.x;
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    if (threadIdx.y >= half && threadIdx.y < 2 * half)
      for (int i = 0; i < A::size; ++i) shared[i][at] = mine.numbers[i];
    __syncthreads();  // one is enough: the next to write are none of those that are read here
    if (threadIdx.y < half) {
      A other;
      for (int i = 0; i < A::size; ++i) other.numbers[i] = shared[i][at + half * blockDim.x];
      mine.merge(other);
    }
  }
}

/// A thread's means and sums of squared distances from them for `lanes` channels, and the count of pixels (Chan, Golub
/// & LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979).
template <class C, int lanes>
struct Moments {
  using Number = C;
  static constexpr int size = 2 * lanes + 1;
  C numbers[size] = {};

  __device__ C& mean(int k) { return numbers[k]; }
  __device__ C& m2(int k) { return numbers[lanes + k]; }
  __device__ C& count() { return numbers[2 * lanes]; }
  __device__ void merge(Moments& o) {
    const C total = count() + o.count();
    if (total == 0) return;
    const C share = o.count() / total, weight = count() * share;
    for (int k = 0; k < lanes; ++k) {
      const C delta = o.mean(k) - mean(k);
      mean(k) += delta * share;
      m2(k) += o.m2(k) + delta * delta * weight;
    }
    count() = total;
  }
};

/// What sums to a channel's gradients: over its gy, and over gy * (x - mean).
template <class C, int lanes>
struct GradientSums {
  using Number = C;
  static constexpr int size = 2 * lanes;
  C numbers[size] = {};

  __device__ C& sum(int k) { return numbers[k]; }
  __device__ C& product(int k) { return numbers[lanes + k]; }
  __device__ void merge(const GradientSums& o) {
    for (int i = 0; i < size; ++i) numbers[i] += o.numbers[i];
  }
};

/// What is known of a channel in the end. Moments are of distances from its first pixel, its pivot: sums of values far
/// from zero, and a mean rounded there, would lose what lies between them.
template <class T>
struct Statistics {
  const T* pivots;
  std::int64_t stride;
  double count;
  ChannelResult<T> mean, var;

  __device__ void operator()(std::int64_t c, double distance, double m2) const {
    mean.set(c, static_cast<double>(widened(pivots[c * stride])) + distance);
    var.set(c, m2 / count);
  }
};

// With r = 1 / sqrt(var + eps) and m pixels: gb = sum(gy), gw = r sum(gy (x - mean)), and in training
// gx = weight r (gy - sum(gy) / m - (x - mean) r^2 sum(gy (x - mean)) / m).
template <class T>
struct Gradients {
  PerChannel<T> weight, mean, var;
  double eps, count;
  ChannelResult<T> gw, gb;
  compute_t<T>* numbers;  // InputGradient's, unless null
  std::int64_t channels;

  __device__ void operator()(std::int64_t c, double sum, double product) const {
    const double r = 1 / ::sqrt(static_cast<double>(var.at(c, 1)) + eps);
    gb.set(c, sum);
    gw.set(c, product * r);
    if (!numbers) return;
    const double scale = static_cast<double>(weight.at(c, 1)) * r;
    const double of_channel[] = {scale, static_cast<double>(mean.at(c, 0)), -scale * r * r * product / count,
                                 -scale * sum / count};
    for (int i = 0; i < 4; ++i) numbers[i * channels + c] = static_cast<compute_t<T>>(of_channel[i]);
  }
};

/// Two numbers for each run and channel; null where there is one run.
template <class C>
struct Partials {
  C* data;
  std::int64_t channels;
  __device__ C& at(std::int64_t run, int which, std::int64_t c) const { return data[(2 * run + which) * channels + c]; }
};

/// The first row's results, to where runs are put together; those of a single run are the channel's.
template <int lanes, class C, class F>
__device__ void finish_run(std::int64_t channels, const Partials<C>& partials, const F& finish, const C (&first)[lanes],
                           const C (&second)[lanes]) {
  const std::int64_t c = first_channel<lanes>();
  if (threadIdx.y > 0 || c >= channels) return;
  for (int k = 0; k < lanes; ++k) {
    if (partials.data) {
      partials.at(blockIdx.y, 0, c + k) = first[k];
      partials.at(blockIdx.y, 1, c + k) = second[k];
    } else {
      finish(c + k, static_cast<double>(first[k]), static_cast<double>(second[k]));
    }
  }
}

/// Adds `step` apart pixels p ... before `end`, as many as are taken at once: all there where `full`.
template <bool full, int at_once, class T, int lanes, class C = compute_t<T>>
__device__ void add_pixels(Moments<C, lanes>& to, const Pixels<1>& pixels, const T* x, const C (&pivot)[lanes],
                           std::int64_t p, std::int64_t step, std::int64_t end) {
  Packed<T, lanes> values[at_once];
  int n = 0;
#pragma unroll
  for (int u = 0; u < at_once; ++u) {
    if (!full && p + u * step >= end) break;
    std::int64_t at[1];
    pixels.template find<lanes>(p + u * step, at);
    values[u] = load<lanes>(x + at[0]);
    n = u + 1;
  }
  const C share = full ? C(1) / at_once : C(1) / static_cast<C>(n);
  Moments<C, lanes> here;
  here.count() = static_cast<C>(full ? at_once : n);
#pragma unroll
  for (int k = 0; k < lanes; ++k) {
    C sum = 0, m2 = 0;
#pragma unroll
    for (int u = 0; u < at_once; ++u)
      if (full || u < n) sum += widened(values[u].values[k]) - pivot[k];
    const C mean = sum * share;
#pragma unroll
    for (int u = 0; u < at_once; ++u)
      if (full || u < n) {
        const C distance = widened(values[u].values[k]) - pivot[k] - mean;
        m2 += distance * distance;
      }
    here.mean(k) = mean;
    here.m2(k) = m2;
  }
  to.merge(here);
}

// Squares are of distances from the mean of a few pixels, which are in registers, never from a far pivot.
template <class T, int lanes, class C = compute_t<T>>
__global__ void __launch_bounds__(block_size, 3)  // so that all runs are under way together
    moments_kernel(Pixels<1> pixels, const T* x, std::int64_t length, Partials<C> partials, Statistics<T> finish) {
  constexpr int at_once = lanes > 1 ? 4 : 8;
  const std::int64_t c = first_channel<lanes>();
  Moments<C, lanes> mine;
  if (c < pixels.channels) {
    const T* from = x + c * pixels.channel_strides[0];
    const auto first = load<lanes>(from);
    C pivot[lanes];
    for (int k = 0; k < lanes; ++k) pivot[k] = widened(first.values[k]);
    const std::int64_t begin = blockIdx.y * length, end = min(begin + length, pixels.count), step = blockDim.y;
    std::int64_t p = begin + threadIdx.y;
    for (; p + (at_once - 1) * step < end; p += at_once * step)
      add_pixels<true, at_once>(mine, pixels, from, pivot, p, step, end);
    if (p < end) add_pixels<false, at_once>(mine, pixels, from, pivot, p, step, end);
  }
  merge_rows(mine);
  C means[lanes], m2s[lanes];
  for (int k = 0; k < lanes; ++k) {
    means[k] = mine.mean(k);
    m2s[k] = mine.m2(k);
  }
  finish_run<lanes>(pixels.channels, partials, finish, means, m2s);
}

template <class T, int lanes, class C = compute_t<T>>
__global__ void __launch_bounds__(block_size)
    gradient_sums_kernel(Pixels<2> pixels, const T* x, const T* gy, PerChannel<T> mean, std::int64_t length,
                         Partials<C> partials, Gradients<T> finish) {
  const std::int64_t c = first_channel<lanes>();
  GradientSums<C, lanes> mine;
  if (c < pixels.channels) {
    const T* x_from = x + c * pixels.channel_strides[0];
    const T* gy_from = gy + c * pixels.channel_strides[1];
    C center[lanes];
    for (int k = 0; k < lanes; ++k) center[k] = mean.at(c + k, 0);
    const std::int64_t begin = blockIdx.y * length, end = min(begin + length, pixels.count);
#pragma unroll 4
    for (std::int64_t p = begin + threadIdx.y; p < end; p += blockDim.y) {
      std::int64_t at[2];
      pixels.template find<lanes>(p, at);
      const auto v = load<lanes>(x_from + at[0]);
      const auto g = load<lanes>(gy_from + at[1]);
      for (int k = 0; k < lanes; ++k) {
        const C gradient = widened(g.values[k]);
        mine.sum(k) += gradient;
        mine.product(k) += gradient * (widened(v.values[k]) - center[k]);
      }
    }
  }
  merge_rows(mine);
  C sums[lanes], products[lanes];
  for (int k = 0; k < lanes; ++k) {
    sums[k] = mine.sum(k);
    products[k] = mine.product(k);
  }
  finish_run<lanes>(pixels.channels, partials, finish, sums, products);
}

// The second launch: a few channels a block, so that 32 bytes of a run are read together, each by many threads.
constexpr int side_by_side = 8, sharing = block_size / side_by_side;

/// The sum over the threads that share a channel; each of them gets it.
__device__ double sum_of_channel(double v) {
  __shared__ double shared[block_size / 32][side_by_side];
  for (int apart = side_by_side; apart < 32; apart *= 2) v += __shfl_xor_sync(~0u, v, apart);
  if (threadIdx.x % 32 < side_by_side) shared[threadIdx.x / 32][threadIdx.x % 32] = v;
  __syncthreads();
  double total = 0;
  for (int warp = 0; warp < block_size / 32; ++warp) total += shared[warp][threadIdx.x % side_by_side];
  __syncthreads();
  return total;
}

template <class C, class F>
__global__ void __launch_bounds__(block_size)
    merge_moments_kernel(Partials<C> partials, std::int64_t runs, std::int64_t length, std::int64_t pixels, F finish) {
  const std::int64_t c = std::int64_t{blockIdx.x} * side_by_side + threadIdx.x % side_by_side;
  const std::int64_t first = threadIdx.x / side_by_side, stop = c < partials.channels ? runs : 0;
  const auto count = [&](std::int64_t run) { return static_cast<double>(min(length, pixels - run * length)); };
  double sum = 0, m2 = 0;
#pragma unroll 4
  for (std::int64_t run = first; run < stop; run += sharing) {
    sum += count(run) * static_cast<double>(partials.at(run, 0, c));
    m2 += static_cast<double>(partials.at(run, 1, c));
  }
  const double mean = sum_of_channel(sum) / static_cast<double>(pixels);
#pragma unroll 4
  for (std::int64_t run = first; run < stop; run += sharing) {
    const double distance = static_cast<double>(partials.at(run, 0, c)) - mean;
    m2 += count(run) * distance * distance;
  }
  m2 = sum_of_channel(m2);
  if (first == 0 && stop > 0) finish(c, mean, m2);
}

template <class C, class F>
__global__ void __launch_bounds__(block_size) add_sums_kernel(Partials<C> partials, std::int64_t runs, F finish) {
  const std::int64_t c = std::int64_t{blockIdx.x} * side_by_side + threadIdx.x % side_by_side;
  const std::int64_t first = threadIdx.x / side_by_side;
  const bool is_channel = c < partials.channels;
  double sum = 0, product = 0;
#pragma unroll 4
  for (std::int64_t run = first; is_channel && run < runs; run += sharing) {
    sum += static_cast<double>(partials.at(run, 0, c));
    product += static_cast<double>(partials.at(run, 1, c));
  }
  sum = sum_of_channel(sum);
  product = sum_of_channel(product);
  if (first == 0 && is_channel) finish(c, sum, product);
}

unsigned second_blocks(std::int64_t channels) {
  return static_cast<unsigned>((channels + side_by_side - 1) / side_by_side);
}

std::int64_t run_length(std::int64_t pixels, std::int64_t runs) { return runs == 0 ? 0 : (pixels + runs - 1) / runs; }

/// y = (x - mean) scale + shift.
template <class T>
struct Normalise {
  using C = compute_t<T>;
  static constexpr int inputs = 1;
  struct Numbers {
    C mean, scale, shift;
  };
  PerChannel<T> weight, bias, mean, var;
  C eps;

  __device__ Numbers of(std::int64_t c) const {
    return {mean.at(c, 0), weight.at(c, 1) / ::sqrt(var.at(c, 1) + eps), bias.at(c, 0)};
  }
  __device__ static C apply(const Numbers& n, const C (&x)[1]) { return (x[0] - n.mean) * n.scale + n.shift; }
};

/// gx = gy scale + (x - mean) slope + shift, of Gradients' numbers.
template <class T>
struct InputGradient {
  using C = compute_t<T>;
  static constexpr int inputs = 2;
  struct Numbers {
    C scale, mean, slope, shift;
  };
  const C* numbers;
  std::int64_t channels;

  __device__ Numbers of(std::int64_t c) const {
    const C* of_channel = numbers + c;
    return {of_channel[0], of_channel[channels], of_channel[2 * channels], of_channel[3 * channels]};
  }
  __device__ static C apply(const Numbers& n, const C (&v)[2]) {
    return v[0] * n.scale + (v[1] - n.mean) * n.slope + n.shift;
  }
};

template <class T, int inputs>
struct Inputs {
  const T* data[inputs];
};

/// Pixels that a thread takes at once.
template <class F>
constexpr int map_at_once = 4 / F::inputs;

template <class T, int lanes, class F>
__global__ void __launch_bounds__(block_size)
    map_kernel(F f, Pixels<F::inputs + 1> pixels, T* y, Inputs<T, F::inputs> x) {
  const std::int64_t c = first_channel<lanes>();
  if (c >= pixels.channels) return;
  typename F::Numbers numbers[lanes];
  for (int k = 0; k < lanes; ++k) numbers[k] = f.of(c + k);
  y += c * pixels.channel_strides[0];
  for (int i = 0; i < F::inputs; ++i) x.data[i] += c * pixels.channel_strides[i + 1];

  constexpr int at_once = map_at_once<F>;
  const std::int64_t step = blockDim.y, tile = at_once * step;
  for (std::int64_t p = blockIdx.y * tile + threadIdx.y; p < pixels.count; p += gridDim.y * tile) {
    Packed<T, lanes> values[at_once][F::inputs];
    std::int64_t to[at_once];
#pragma unroll
    for (int u = 0; u < at_once; ++u) {  // all loads before the first store
      if (p + u * step >= pixels.count) break;
      std::int64_t at[F::inputs + 1];
      pixels.template find<lanes>(p + u * step, at);
      to[u] = at[0];
      for (int i = 0; i < F::inputs; ++i) values[u][i] = load<lanes>(x.data[i] + at[i + 1]);
    }
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      if (p + u * step >= pixels.count) break;
      Packed<T, lanes> out;
      for (int k = 0; k < lanes; ++k) {
        typename F::C operands[F::inputs];
        for (int i = 0; i < F::inputs; ++i) operands[i] = widened(values[u][i].values[k]);
        out.values[k] = narrowed<T>(F::apply(numbers[k], operands));
      }
      out.store(y + to[u]);
    }
  }
}

/// y = f(numbers of the channel, x...), element by element.
template <class T, class F, class... X>
void map(const F& f, const View& y, const X&... x) {
  if (y.numel() == 0) return;
  const cudaStream_t stream = stream_of(y.device);
  const std::array<const ConstView*, sizeof...(X) + 1> images{&y, &x...};
  const Pixels<sizeof...(X) + 1> pixels(images);
  with_lanes<T>(pixels, images, [&](auto lanes) {
    const Tiles tiles(pixels, lanes);
    const std::int64_t tile = std::int64_t{map_at_once<F>} * tiles.threads.y;
    const std::int64_t most = std::max<std::int64_t>(std::int64_t{processors(y.device)} * 16 / tiles.count, 1);
    const dim3 blocks(tiles.count, static_cast<unsigned>(std::min((pixels.count + tile - 1) / tile, most)));
    map_kernel<T, lanes><<<blocks, tiles.threads, 0, stream>>>(f, pixels, y.as<T>(), {x.template as<T>()...});
  });
  check_launch();
}

void batch_norm_statistics(const BatchNormStatisticsArgs& a, const Plan& plan, Workspace ws) {
  if (a.x.numel() == 0) return;
  const cudaStream_t stream = stream_of(a.x.device);
  visit_floating(a.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const Pixels<1> pixels({&a.x});
    const std::int64_t runs = plan.algorithm, length = run_length(pixels.count, runs);
    const Partials<C> partials{runs > 1 ? static_cast<C*>(ws.data) : nullptr, pixels.channels};
    const Statistics<T> finish{a.x.as<T>(), a.x.strides[1], static_cast<double>(pixels.count), ChannelResult<T>(a.mean),
                               ChannelResult<T>(a.var)};
    with_lanes<T, 1>(pixels, {&a.x}, [&](auto lanes) {
      const Tiles tiles(pixels, lanes);
      const dim3 blocks(tiles.count, static_cast<unsigned>(runs));
      moments_kernel<T, lanes><<<blocks, tiles.threads, 0, stream>>>(pixels, a.x.as<T>(), length, partials, finish);
    });
    check_launch();
    if (runs == 1) return;
    merge_moments_kernel<<<second_blocks(pixels.channels), block_size, 0, stream>>>(partials, runs, length,
                                                                                    pixels.count, finish);
    check_launch();
  });
}

void batch_norm_apply(const ConstView& x, const ConstView& weight, const ConstView& bias, const ConstView& mean,
                      const ConstView& var, double eps, const View& y) {
  visit_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    map<T>(Normalise<T>{PerChannel<T>(weight), PerChannel<T>(bias), PerChannel<T>(mean), PerChannel<T>(var),
                        static_cast<compute_t<T>>(eps)},
           y, x);
  });
}

/// A channel's sums, and with them gw, gb and, unless null, InputGradient's numbers.
template <class T>
void gradient_sums(const BatchNormBackwardArgs& a, std::int64_t runs, compute_t<T>* numbers, compute_t<T>* scratch) {
  using C = compute_t<T>;
  const cudaStream_t stream = stream_of(a.x.device);
  const Pixels<2> pixels({&a.x, &a.gy});
  const std::int64_t length = run_length(pixels.count, runs);
  const Partials<C> partials{runs > 1 ? scratch : nullptr, pixels.channels};
  const PerChannel<T> mean(a.mean);
  const Gradients<T> finish{PerChannel<T>(a.weight),
                            mean,
                            PerChannel<T>(a.var),
                            a.eps,
                            static_cast<double>(pixels.count),
                            ChannelResult<T>(a.gw),
                            ChannelResult<T>(a.gb),
                            numbers,
                            pixels.channels};
  if (runs > 0)
    with_lanes<T, 2>(pixels, {&a.x, &a.gy}, [&](auto lanes) {
      const Tiles tiles(pixels, lanes);
      const dim3 blocks(tiles.count, static_cast<unsigned>(runs));
      gradient_sums_kernel<T, lanes>
          <<<blocks, tiles.threads, 0, stream>>>(pixels, a.x.as<T>(), a.gy.as<T>(), mean, length, partials, finish);
      check_launch();
    });
  if (runs == 1) return;
  add_sums_kernel<<<second_blocks(pixels.channels), block_size, 0, stream>>>(partials, runs, finish);
  check_launch();
}

void batch_norm_backward(const BatchNormBackwardArgs& a, const Plan& plan, Workspace ws) {
  if (a.x.shape[1] == 0) return;
  visit_floating(a.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    C* const numbers = a.training && a.gx.defined() ? static_cast<C*>(ws.data) : nullptr;
    if (a.training || a.gw.defined() || a.gb.defined())
      gradient_sums<T>(a, plan.algorithm, numbers, static_cast<C*>(ws.data) + (numbers ? 4 * a.x.shape[1] : 0));
    if (!a.gx.defined()) return;
    if (a.training)
      map<T>(InputGradient<T>{numbers, a.x.shape[1]}, a.gx, a.gy, a.x);
    else  // the mean is a constant: gy weight / sqrt(var + eps)
      map<T>(Normalise<T>{PerChannel<T>(a.weight), PerChannel<T>({}), PerChannel<T>({}), PerChannel<T>(a.var),
                          static_cast<C>(a.eps)},
             a.gx, a.gy);
  });
}

}  // namespace

NormKernels norm_kernels() {
  return {
      .batch_norm_statistics = {plan, batch_norm_statistics},
      .batch_norm_apply = batch_norm_apply,
      .batch_norm_backward = {plan, batch_norm_backward},
  };
}

}  // namespace bytetape::cuda
