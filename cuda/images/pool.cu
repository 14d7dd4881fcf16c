#include <optional>

#include "bytetape/cuda/images/resample.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

using resample::quotient;
using resample::Range;
using resample::Windows;

/// The positions of maxima in their windows, u8 or i32, row-major.
struct Indices {
  ImagePixels<std::uint8_t> narrow;
  ImagePixels<std::int32_t> wide;
  bool is_wide;

  explicit Indices(const ConstView& v)
      : narrow(writable(v)), wide(writable(v)), is_wide(v.defined() && v.dtype == DType::i32) {}
  __device__ bool defined() const { return narrow.data; }
  __device__ std::int32_t none() const { return is_wide ? no_position<std::int32_t> : no_position<std::uint8_t>; }
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

template <class T, int lanes>
__global__ void __launch_bounds__(block_size)
    max_pool2d_kernel(Layout layout, Windows rows, Windows columns, bool cuts_off, ImagePixels<const T> x,
                      ImagePixels<T> y, Indices indices) {
  using C = compute_t<T>;
  layout.for_each<lanes>([&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    C best[lanes];
    std::int32_t at[lanes];
    resample::max_of_window(
        rows, columns, x, n, c, h, w, std::integral_constant<int, lanes>(), best, at,
        [](auto* pixel) { return [values = load<lanes>(pixel)](auto k) { return widened(values.values[k]); }; });
    Packed<T, lanes> result;
    for (int k = 0; k < lanes; ++k) {
      const bool is_cut = cuts_off && best[k] <= C(0);  // false for NaN
      result.values[k] = narrowed<T>(is_cut ? C(0) : best[k]);
      at[k] = is_cut ? indices.none() : at[k];
    }
    store(y.at(n, c, h, w), result);
    if (indices.defined()) indices.store<lanes>(n, c, h, w, at);
  });
}

// Finds for each input the windows that chose it. So each element is written once, by one thread, and sums have a fixed
// order.
template <class T, int lanes>
__global__ void __launch_bounds__(block_size)
    max_pool2d_backward_kernel(Layout layout, Windows rows, Windows columns, ImagePixels<const T> gy, Indices indices,
                               ImagePixels<T> gx) {
  using C = compute_t<T>;
  layout.for_each<lanes>([&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    const Range above = rows.outputs_of(h), beside = columns.outputs_of(w);
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

// For adjacent windows: each window writes its own inputs. The last ones also write 0 for the inputs after them, which
// belong to no window.
template <class T, int lanes>
__global__ void __launch_bounds__(block_size)
    max_pool2d_tiles_backward_kernel(Layout layout, Size2 kernel, Size2 count, Size2 rest, ImagePixels<const T> gy,
                                     Indices indices, ImagePixels<T> gx) {
  layout.for_each<lanes>([&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    std::int32_t chosen[lanes];
    indices.load<lanes>(n, c, h, w, chosen);
    const auto gradients = load<lanes>(gy.at(n, c, h, w));
    const std::int64_t rows = kernel.h + (h + 1 == count.h ? rest.h : 0);
    const std::int64_t columns = kernel.w + (w + 1 == count.w ? rest.w : 0);
    for (std::int64_t i = 0; i < rows; ++i) {
      T* to = gx.at(n, c, h * kernel.h + i, w * kernel.w);
      for (std::int64_t j = 0; j < columns; ++j, to += gx.strides[3]) {
        const bool is_inside = i < kernel.h && j < kernel.w;
        const auto here = static_cast<std::int32_t>(is_inside ? i * kernel.w + j : -1);
        Packed<T, lanes> result;
        for (int k = 0; k < lanes; ++k) result.values[k] = chosen[k] == here ? gradients.values[k] : T{};
        store(to, result);
      }
    }
  });
}

/// Returns the number of inputs below and beside the last of adjacent windows, or nothing if windows overlap, leave
/// gaps or reach beyond the inputs.
std::optional<Size2> rest_of_tiles(const Pool2dParams& p, const Shape& x, const Shape& y) {
  const Size2 rest(x[2] - y[2] * p.kernel.h, x[3] - y[3] * p.kernel.w);
  if (p.stride != p.kernel || p.padding != Size2(0) || rest.h < 0 || rest.w < 0) return std::nullopt;
  return rest;
}

template <class T>
__global__ void __launch_bounds__(block_size)
    max_pool2d_gather_kernel(Layout layout, Windows rows, Windows columns, ImagePixels<const T> x, Indices indices,
                             ImagePixels<T> y) {
  layout.for_each<1>([&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    std::int32_t chosen[1];
    indices.load<1>(n, c, h, w, chosen);
    const std::int64_t i = quotient(chosen[0], columns.kernel), j = chosen[0] - i * columns.kernel;
    const bool has_index = chosen[0] != indices.none();
    *y.at(n, c, h, w) = has_index ? *x.at(n, c, rows.start(h) + i, columns.start(w) + j) : T{};
  });
}

/// Calls f(lanes), the number of channels that a thread processes at once: 16 bytes of them, or one.
template <class T, class F>
void with_lanes(const ConstView& a, const ConstView& b, const ConstView& indices, F&& f) {
  constexpr int most = 16 / sizeof(T);
  if (fits(a, most) && fits(b, most) && fits(indices, most))
    f(std::integral_constant<int, most>());
  else
    f(std::integral_constant<int, 1>());
}

void max_pool2d(const ConstView& x, const Pool2dParams& p, Activation activation, const View& y, const View& indices) {
  if (y.numel() == 0) return;
  const cudaStream_t stream = stream_of(y.device);
  const Windows rows(p, x.shape, y.shape, 0), columns(p, x.shape, y.shape, 1);
  visit_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_lanes<T>(x, y, indices, [&](auto lanes) {
      const Layout layout(y, lanes);
      max_pool2d_kernel<T, lanes>
          <<<layout.blocks, layout.threads, 0, stream>>>(layout, rows, columns, activation == Activation::relu,
                                                         ImagePixels<const T>(x), ImagePixels<T>(y), Indices(indices));
    });
  });
  check_launch();
}

void max_pool2d_backward(const ConstView& gy, const ConstView& indices, const Pool2dParams& p, const View& gx) {
  if (gx.numel() == 0) return;
  const cudaStream_t stream = stream_of(gx.device);
  const Windows rows(p, gx.shape, gy.shape, 0), columns(p, gx.shape, gy.shape, 1);
  visit_floating(gx.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_lanes<T>(gy, gx, indices, [&](auto lanes) {
      if (const auto rest = rest_of_tiles(p, gx.shape, gy.shape)) {
        const Layout tiles(gy, lanes);
        max_pool2d_tiles_backward_kernel<T, lanes><<<tiles.blocks, tiles.threads, 0, stream>>>(
            tiles, p.kernel, Size2(gy.shape[2], gy.shape[3]), *rest, ImagePixels<const T>(gy), Indices(indices),
            ImagePixels<T>(gx));
        return;
      }
      const Layout layout(gx, lanes);
      max_pool2d_backward_kernel<T, lanes><<<layout.blocks, layout.threads, 0, stream>>>(
          layout, rows, columns, ImagePixels<const T>(gy), Indices(indices), ImagePixels<T>(gx));
    });
  });
  check_launch();
}

// Moves bits, for any dtype of their size.
void max_pool2d_gather(const ConstView& x, const ConstView& indices, const Pool2dParams& p, const View& y) {
  if (y.numel() == 0) return;
  const cudaStream_t stream = stream_of(y.device);
  const Windows rows(p, x.shape, y.shape, 0), columns(p, x.shape, y.shape, 1);
  const Layout layout(y, 1);
  const auto launch = [&](auto zero) {
    using T = decltype(zero);
    max_pool2d_gather_kernel<T><<<layout.blocks, layout.threads, 0, stream>>>(
        layout, rows, columns, ImagePixels<const T>(x), Indices(indices), ImagePixels<T>(y));
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

const PoolKernels& pool_kernels() {
  static const PoolKernels all{
      .max_pool2d = max_pool2d,
      .max_pool2d_backward = max_pool2d_backward,
      .max_pool2d_gather = max_pool2d_gather,
      .avg_pool2d = ResampleKernels::avg_pool2d,
      .avg_pool2d_backward = ResampleKernels::avg_pool2d_backward,
      .adaptive_avg_pool2d = ResampleKernels::adaptive_avg_pool2d,
      .adaptive_avg_pool2d_backward = ResampleKernels::adaptive_avg_pool2d_backward,
  };
  return all;
}

}  // namespace bytetape::cuda
