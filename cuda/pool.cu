// Pooling over windows of images (n, c, h, w). A thread makes some neighbouring channels of a pixel, or one: threads
// lie along the channels and pixels of a row (x) where channels are adjacent in memory, else along its pixels, and
// blocks along the rows (y).
#include <algorithm>
#include <limits>

#include "bytetape/cuda/convert.cuh"
#include "bytetape/cuda/elementwise.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

template <int lanes, class T>
__device__ void store(T* to, const Packed<T, lanes>& values) {
  if constexpr (sizeof(values) == sizeof(uint4))  // the compiler would store what comes out of a loop one by one
    __stwb(reinterpret_cast<uint4*>(to), std::bit_cast<uint4>(values));
  else
    values.store(to);
}

/// a / b of what is not negative; the 32-bit division is several times as fast.
__host__ __device__ inline std::int64_t quotient(std::int64_t a, std::int64_t b) {
  return ((a | b) >> 32) == 0 ? static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b) : a / b;
}

struct Range {
  std::int64_t begin, end;
};

/// One spatial dim of a pooling.
struct Axis {
  std::int64_t kernel, stride, padding, inputs, outputs;

  Axis(const Pool2dParams& p, const Shape& x, const Shape& y, int spatial)
      : kernel(p.kernel[spatial]),
        stride(p.stride[spatial]),
        padding(p.padding[spatial]),
        inputs(x[2 + spatial]),
        outputs(y[2 + spatial]) {}
  __device__ std::int64_t start(std::int64_t output) const { return output * stride - padding; }
  /// The positions within an output's window that are no padding.
  __device__ Range window(std::int64_t output) const {
    const std::int64_t at = start(output);
    return {max(-at, std::int64_t{0}), min(kernel, inputs - at)};
  }
  /// The outputs whose window has the input in it.
  __device__ Range covering(std::int64_t input) const {
    const std::int64_t last = input + padding, first = last - kernel + 1;
    return {first > 0 ? quotient(first + stride - 1, stride) : 0, min(quotient(last, stride) + 1, outputs)};
  }
};

template <class T>
struct Image {
  T* data;
  std::int64_t strides[4];

  template <class V>
  explicit Image(const V& v) : data(v.template as<T>()) {
    for (int d = 0; d < 4; ++d) strides[d] = v.defined() ? v.strides[d] : 0;
  }
  __device__ std::int64_t offset(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return n * strides[0] + c * strides[1] + h * strides[2] + w * strides[3];
  }
  __device__ T* at(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return data + offset(n, c, h, w);
  }
};

/// Positions in windows, u8 or i32, row-major.
struct Indices {
  Image<std::uint8_t> narrow;
  Image<std::int32_t> wide;
  bool is_wide;

  explicit Indices(const ConstView& v)
      : narrow(writable(v)), wide(writable(v)), is_wide(v.defined() && v.dtype == DType::i32) {}
  __device__ bool defined() const { return narrow.data; }
  template <int lanes>
  __device__ void load(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w,
                       std::int32_t (&to)[lanes]) const {
    if (is_wide) {
      const auto values = cuda::load<lanes>(wide.at(n, c, h, w));
      for (int k = 0; k < lanes; ++k) to[k] = values.values[k];
    } else {
      const auto values = cuda::load<lanes>(narrow.at(n, c, h, w));
      for (int k = 0; k < lanes; ++k) to[k] = values.values[k];
    }
  }
  template <int lanes>
  __device__ void store(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w,
                        const std::int32_t (&from)[lanes]) const {
    if (is_wide) {
      Packed<std::int32_t, lanes> values;
      for (int k = 0; k < lanes; ++k) values.values[k] = from[k];
      cuda::store(wide.at(n, c, h, w), values);
    } else {
      Packed<std::uint8_t, lanes> values;
      for (int k = 0; k < lanes; ++k) values.values[k] = static_cast<std::uint8_t>(from[k]);
      cuda::store(narrow.at(n, c, h, w), values);
    }
  }

 private:
  static View writable(const ConstView& v) {
    return v.defined() ? View(const_cast<void*>(v.data()), v.dtype, v.device, v.shape, v.strides) : View();
  }
};

/// How threads lie over what is made, shape (n, c, h, w), `lanes` channels each.
struct Layout {
  std::int64_t inner;           // threads' work in a row: pixels, times vectors of channels where these are adjacent
  std::int64_t inner_channels;  // those vectors, else 1
  std::int64_t outer_channels;  // channels that are rows of their own, else 1
  std::int64_t rows, height;
  dim3 blocks, threads;

  Layout(const ConstView& made, int lanes) : height(made.shape[2]) {
    const std::int64_t vectors = made.shape[1] / lanes, width = made.shape[3];
    const bool adjacent = made.strides[1] == 1 && (vectors > 1 || lanes > 1);
    inner_channels = adjacent ? vectors : 1;
    outer_channels = adjacent ? 1 : vectors;
    inner = width * inner_channels;
    rows = made.shape[0] * outer_channels * height;
    while (threads.x < block_size && threads.x < inner) threads.x *= 2;
    threads.y = block_size / threads.x;
    blocks.x = static_cast<unsigned>((inner + threads.x - 1) / threads.x);
    const std::int64_t most = std::max<std::int64_t>(std::int64_t{processors(made.device)} * 16 / blocks.x, 1);
    blocks.y = static_cast<unsigned>(std::min((rows + threads.y - 1) / threads.y, most));
  }

  /// f(n, c, h, w) for all that is this thread's.
  template <int lanes, class F>
  __device__ void for_each(const F& f) const {
    const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i >= inner) return;
    const std::int64_t w = quotient(i, inner_channels), inner_channel = i - w * inner_channels;
    const std::int64_t step = std::int64_t{gridDim.y} * blockDim.y;
    for (std::int64_t row = std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y; row < rows; row += step) {
      const std::int64_t plane = quotient(row, height), h = row - plane * height;
      const std::int64_t n = quotient(plane, outer_channels), outer_channel = plane - n * outer_channels;
      f(n, (inner_channel + outer_channel) * lanes, h, w);
    }
  }
};

// NaN wins, and of equals the first.
template <class T, int lanes>
__global__ void __launch_bounds__(block_size)
    max_pool2d_kernel(Layout layout, Axis rows, Axis columns, Image<const T> x, Image<T> y, Indices indices) {
  using C = compute_t<T>;
  layout.for_each<lanes>([&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    const Range is = rows.window(h), js = columns.window(w);
    C best[lanes];
    std::int32_t at[lanes];
    for (int k = 0; k < lanes; ++k) {
      best[k] = -std::numeric_limits<C>::infinity();
      at[k] = static_cast<std::int32_t>(is.begin * columns.kernel + js.begin);
    }
    for (std::int64_t i = is.begin; i < is.end; ++i) {
      const T* from = x.at(n, c, rows.start(h) + i, columns.start(w) + js.begin);
      auto position = static_cast<std::int32_t>(i * columns.kernel + js.begin);
#pragma unroll 2
      for (std::int64_t j = js.begin; j < js.end; ++j, ++position, from += x.strides[3]) {
        const auto values = load<lanes>(from);
        for (int k = 0; k < lanes; ++k) {
          const C v = widened(values.values[k]);
          const bool wins = v > best[k] || v != v;
          best[k] = wins ? v : best[k];
          at[k] = wins ? position : at[k];
        }
      }
    }
    Packed<T, lanes> result;
    for (int k = 0; k < lanes; ++k) result.values[k] = narrowed<T>(best[k]);
    store(y.at(n, c, h, w), result);
    if (indices.defined()) indices.store<lanes>(n, c, h, w, at);
  });
}

// Asks for each input which windows chose it: every element is written once, by one thread, and sums are in one order.
template <class T, int lanes>
__global__ void __launch_bounds__(block_size)
    max_pool2d_backward_kernel(Layout layout, Axis rows, Axis columns, Image<const T> gy, Indices indices,
                               Image<T> gx) {
  using C = compute_t<T>;
  layout.for_each<lanes>([&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    const Range above = rows.covering(h), beside = columns.covering(w);
    C sum[lanes] = {};
    for (std::int64_t i = above.begin; i < above.end; ++i)
#pragma unroll 2
      for (std::int64_t j = beside.begin; j < beside.end; ++j) {
        const auto here = static_cast<std::int32_t>((h - rows.start(i)) * columns.kernel + w - columns.start(j));
        std::int32_t chosen[lanes];
        indices.load<lanes>(n, c, i, j, chosen);
        const auto gradients = load<lanes>(gy.at(n, c, i, j));
        for (int k = 0; k < lanes; ++k) sum[k] += chosen[k] == here ? widened(gradients.values[k]) : C(0);
      }
    Packed<T, lanes> result;
    for (int k = 0; k < lanes; ++k) result.values[k] = narrowed<T>(sum[k]);
    store(gx.at(n, c, h, w), result);
  });
}

// Of windows that lie side by side and cover all: each window writes its own inputs.
template <class T, int lanes>
__global__ void __launch_bounds__(block_size)
    max_pool2d_tiles_backward_kernel(Layout layout, Size2 kernel, Image<const T> gy, Indices indices, Image<T> gx) {
  layout.for_each<lanes>([&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    std::int32_t chosen[lanes];
    indices.load<lanes>(n, c, h, w, chosen);
    const auto gradients = load<lanes>(gy.at(n, c, h, w));
    std::int32_t here = 0;
    for (std::int64_t i = 0; i < kernel.h; ++i) {
      T* to = gx.at(n, c, h * kernel.h + i, w * kernel.w);
      for (std::int64_t j = 0; j < kernel.w; ++j, ++here, to += gx.strides[3]) {
        Packed<T, lanes> result;
        for (int k = 0; k < lanes; ++k) result.values[k] = chosen[k] == here ? gradients.values[k] : T{};
        store(to, result);
      }
    }
  });
}

bool are_tiles(const Pool2dParams& p, const Shape& x, const Shape& y) {
  return p.stride == p.kernel && p.padding == Size2(0) && y[2] * p.kernel.h == x[2] && y[3] * p.kernel.w == x[3];
}

template <class T>
__global__ void __launch_bounds__(block_size)
    max_pool2d_gather_kernel(Layout layout, Axis rows, Axis columns, Image<const T> x, Indices indices, Image<T> y) {
  layout.for_each<1>([&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    std::int32_t chosen[1];
    indices.load<1>(n, c, h, w, chosen);
    const std::int64_t i = quotient(chosen[0], columns.kernel), j = chosen[0] - i * columns.kernel;
    *y.at(n, c, h, w) = *x.at(n, c, rows.start(h) + i, columns.start(w) + j);
  });
}

/// True where channels can be taken `lanes` at a time: adjacent and aligned, in every pixel.
template <class T>
bool fits(const ConstView& v, int lanes) {
  if (!v.defined()) return true;
  bool fits = v.strides[1] == 1 && v.shape[1] % lanes == 0 && detail::is_aligned<T>(v, lanes);
  for (const int d : {0, 2, 3}) fits = fits && (v.shape[d] == 1 || v.strides[d] % lanes == 0);
  return fits;
}

/// Calls f with the number of channels that a thread takes at once: those of 16 bytes, or one.
template <class T, class F>
void with_lanes(const ConstView& a, const ConstView& b, const ConstView& indices, F&& f) {
  constexpr int most = 16 / sizeof(T);
  const bool all =
      fits<T>(a, most) && fits<T>(b, most) &&
      (indices.dtype == DType::i32 ? fits<std::int32_t>(indices, most) : fits<std::uint8_t>(indices, most));
  if (all)
    f(std::integral_constant<int, most>());
  else
    f(std::integral_constant<int, 1>());
}

void max_pool2d(const ConstView& x, const Pool2dParams& p, const View& y, const View& indices) {
  if (y.numel() == 0) return;
  const cudaStream_t stream = stream_of(y.device);
  const Axis rows(p, x.shape, y.shape, 0), columns(p, x.shape, y.shape, 1);
  visit_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_lanes<T>(x, y, indices, [&](auto lanes) {
      const Layout layout(y, lanes);
      max_pool2d_kernel<T, lanes><<<layout.blocks, layout.threads, 0, stream>>>(
          layout, rows, columns, Image<const T>(x), Image<T>(y), Indices(indices));
    });
  });
  check_launch();
}

void max_pool2d_backward(const ConstView& gy, const ConstView& indices, const Pool2dParams& p, const View& gx) {
  if (gx.numel() == 0) return;
  const cudaStream_t stream = stream_of(gx.device);
  const Axis rows(p, gx.shape, gy.shape, 0), columns(p, gx.shape, gy.shape, 1);
  visit_floating(gx.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_lanes<T>(gy, gx, indices, [&](auto lanes) {
      if (are_tiles(p, gx.shape, gy.shape)) {
        const Layout tiles(gy, lanes);
        max_pool2d_tiles_backward_kernel<T, lanes><<<tiles.blocks, tiles.threads, 0, stream>>>(
            tiles, p.kernel, Image<const T>(gy), Indices(indices), Image<T>(gx));
        return;
      }
      const Layout layout(gx, lanes);
      max_pool2d_backward_kernel<T, lanes><<<layout.blocks, layout.threads, 0, stream>>>(
          layout, rows, columns, Image<const T>(gy), Indices(indices), Image<T>(gx));
    });
  });
  check_launch();
}

// Moves bits, whatever they stand for.
void max_pool2d_gather(const ConstView& x, const ConstView& indices, const Pool2dParams& p, const View& y) {
  if (y.numel() == 0) return;
  const cudaStream_t stream = stream_of(y.device);
  const Axis rows(p, x.shape, y.shape, 0), columns(p, x.shape, y.shape, 1);
  const Layout layout(y, 1);
  const auto launch = [&](auto zero) {
    using T = decltype(zero);
    max_pool2d_gather_kernel<T><<<layout.blocks, layout.threads, 0, stream>>>(layout, rows, columns, Image<const T>(x),
                                                                              Indices(indices), Image<T>(y));
  };
  switch (size_of(y.dtype)) {
    case 8:
      launch(std::uint64_t{});
      break;
    case 4:
      launch(std::uint32_t{});
      break;
    default:
      launch(std::uint16_t{});
  }
  check_launch();
}

}  // namespace

PoolKernels pool_kernels() {
  return {
      .max_pool2d = max_pool2d,
      .max_pool2d_backward = max_pool2d_backward,
      .max_pool2d_gather = max_pool2d_gather,
  };
}

}  // namespace bytetape::cuda
