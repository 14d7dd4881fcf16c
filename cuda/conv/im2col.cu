#include "bytetape/cuda/conv/im2col.h"

#include "bytetape/core/visit.h"
#include "bytetape/cuda/matmul/matmul.h"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/runtime/launch.h"

namespace bytetape::cuda {
namespace {

constexpr int warp = 32, warps = 8;  // warps per block; a warp processes a pixel at a time

/// The layout of images in memory.
struct Images {
  std::int64_t h, w, strides[4];
  explicit Images(const ConstView& x) : h(x.shape[2]), w(x.shape[3]) {
    for (int d = 0; d < 4; ++d) strides[d] = x.strides[d];
  }
  /// The offset of pixel (y, x) of image n, channel 0.
  __device__ std::int64_t at(std::int64_t n, std::int64_t y, std::int64_t x) const {
    return n * strides[0] + y * strides[2] + x * strides[3];
  }
};

/// The coordinates of a pixel of a batch, by its number.
struct Pixel {
  std::int64_t n, y, x;
  __device__ Pixel(std::int64_t i, std::int64_t h, std::int64_t w) {
    const std::int64_t row = i / w;
    x = i - row * w;
    n = row / h;
    y = row - n * h;
  }
};

/// Maps the pixels of an h x w grid to the pixels of other images that they depend on.
struct Window {
  std::int64_t h, w;
  std::uint32_t kh, kw, channels, patch;  // channels of a group; elements of a patch, all groups
  std::int64_t stride[2], padding[2], dilation[2];
  bool is_gradient;  // for gx: images are y's and the grid is x's, so taps are mirrored

  /// The pixels that those of y depend on; for input_grad, the pixels that those of x depend on.
  Window(const ConvSizes& s, ConvMap map) : is_gradient(map == ConvMap::input_grad) {
    h = is_gradient ? s.h : s.oh;
    w = is_gradient ? s.w : s.ow;
    kh = static_cast<std::uint32_t>(s.kh);
    kw = static_cast<std::uint32_t>(s.kw);
    channels = static_cast<std::uint32_t>(is_gradient ? s.group_out() : s.group_in());
    patch = static_cast<std::uint32_t>(s.groups * s.taps()) * channels;
    for (int d = 0; d < 2; ++d) {
      stride[d] = s.p.stride[d];
      padding[d] = s.p.padding[d];
      dilation[d] = s.p.dilation[d];
    }
  }
  /// Pixels of y that depend on themselves.
  explicit Window(const ConvSizes& s)
      : h(s.oh),
        w(s.ow),
        kh(1),
        kw(1),
        channels(static_cast<std::uint32_t>(s.o)),
        patch(channels),
        stride{1, 1},
        padding{0, 0},
        dilation{1, 1},
        is_gradient(false) {}

  /// Returns the row (d = 0) or column of the images for tap k of `at`. -1 if it is outside.
  __device__ std::int64_t source(std::int64_t at, std::uint32_t k, int d, std::int64_t size) const {
    std::int64_t i = k * dilation[d] - padding[d];
    if (is_gradient) {
      i = at - i;
      if (i < 0 || i % stride[d] != 0) return -1;
      i /= stride[d];
    } else {
      i += at * stride[d];
    }
    return i >= 0 && i < size ? i : -1;
  }
};

template <class T, class C>
__global__ void __launch_bounds__(warp* warps)
    gather_kernel(Window window, Images images, const T* x, std::int64_t first, std::int64_t count, C* patches) {
  for (std::int64_t row = std::int64_t{blockIdx.x} * warps + threadIdx.y; row < count;
       row += std::int64_t{gridDim.x} * warps) {
    const Pixel pixel(first + row, window.h, window.w);
    for (std::uint32_t i = threadIdx.x; i < window.patch; i += warp) {
      const std::uint32_t tap = i / window.channels, row_of_taps = tap / window.kw, group = row_of_taps / window.kh;
      const std::uint32_t channel = group * window.channels + i % window.channels;
      const std::int64_t sy = window.source(pixel.y, row_of_taps % window.kh, 0, images.h);
      const std::int64_t sx = window.source(pixel.x, tap % window.kw, 1, images.w);
      C value{0};
      if (sy >= 0 && sx >= 0) value = static_cast<C>(x[images.at(pixel.n, sy, sx) + channel * images.strides[1]]);
      patches[row * window.patch + i] = value;
    }
  }
}

/// The inverse of gather: writes pixels from values. Adds the bias if it is defined, and applies relu if `relu`.
template <class T, class C>
__global__ void __launch_bounds__(warp* warps)
    scatter_kernel(Images images, T* y, const T* bias, bool relu, std::int64_t first, std::int64_t count,
                   std::int64_t channels, const C* values) {
  for (std::int64_t row = std::int64_t{blockIdx.x} * warps + threadIdx.y; row < count;
       row += std::int64_t{gridDim.x} * warps) {
    const Pixel pixel(first + row, images.h, images.w);
    const std::int64_t at = images.at(pixel.n, pixel.y, pixel.x);
    for (std::int64_t i = threadIdx.x; i < channels; i += warp) {
      const C value = values[row * channels + i] + (bias ? static_cast<C>(bias[i]) : C{0});
      y[at + i * images.strides[1]] = static_cast<T>(relu && value < 0 ? C{0} : value);
    }
  }
}

struct Same {
  template <class T>
  __device__ T operator()(T v) const {
    return v;
  }
};
struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

template <class T>
T* at(void* ws, std::size_t offset) {
  return reinterpret_cast<T*>(static_cast<char*>(ws) + offset);
}

/// Returns the blocks for `count` pixels. blocks_for() counts threads.
unsigned pixel_blocks(std::int64_t count, Device device) { return blocks_for(count * warp, device); }

template <class T>
void gather(const Window& window, const ConstView& x, std::int64_t first, std::int64_t count, void* patches) {
  using C = compute_t<T>;
  gather_kernel<T, C><<<pixel_blocks(count, x.device), dim3(warp, warps), 0, stream_of(x.device)>>>(
      window, Images(x), x.as<T>(), first, count, static_cast<C*>(patches));
  check_launch();
}

template <class T>
void scatter(const void* values, const ConstView& bias, Activation activation, const View& y, std::int64_t first,
             std::int64_t count) {
  using C = compute_t<T>;
  scatter_kernel<T, C><<<pixel_blocks(count, y.device), dim3(warp, warps), 0, stream_of(y.device)>>>(
      Images(y), y.as<T>(), bias.as<T>(), activation == Activation::relu, first, count, y.shape[1],
      static_cast<const C*>(values));
  check_launch();
}

/// Returns a view of weight (o, c / groups, kh, kw) in Im2col's order of dims.
template <class V>
V in_order(const V& weight, const ConvSizes& s, ConvMap map) {
  const Strides& step = weight.strides;
  V out = weight;
  if (map == ConvMap::input_grad) {
    out.shape = {s.groups, s.kh, s.kw, s.group_out(), s.group_in()};
    out.strides = {s.group_out() * step[0], step[2], step[3], step[0], step[1]};
  } else {
    out.shape = {s.o, s.kh, s.kw, s.group_in()};
    out.strides = {step[0], step[2], step[3], step[1]};
  }
  return out;
}

/// Returns a view of Im2col's weights, dense, in the shape of in_order().
template <class V>
View dense_weights(const Im2col& how, void* ws, const V& like, DType dtype) {
  return View(at<char>(ws, how.weights), dtype, like.device, like.shape, contiguous_strides(like.shape));
}

template <class T>
void load_weights(const Im2col& how, const ConvSizes& s, const ConstView& weight, void* ws) {
  const ConstView from = in_order(weight, s, how.map);
  elementwise<compute_t<T>, T>(Same(), dense_weights(how, ws, from, how.dtype), from);
}

/// Calls f(first pixel, count) for pieces that cover all pixels.
template <class F>
void for_pieces(const Im2col& how, const F& f) {
  for (std::int64_t first = 0; first < how.pixels; first += how.rows) f(first, std::min(how.rows, how.pixels - first));
}

Workspace product_workspace(const Im2col& how, void* ws) {
  return {at<char>(ws, how.products), how.total - how.products};
}

/// Computes the two maps whose results are images: forward and input_grad.
template <class T>
void make_images(const ConvSizes& s, ConvMap map, const ConstView& x, const ConstView& weight, const ConstView& bias,
                 Activation activation, const View& y, void* ws) {
  const Im2col how(s, map, workspace_cap(y.device));
  const Window window(s, map);
  load_weights<T>(how, s, weight, ws);
  for_pieces(how, [&](std::int64_t first, std::int64_t count) {
    gather<T>(window, x, first, count, at<char>(ws, how.patches));
    multiply(how.product(ws, count, 0, y.device), product_workspace(how, ws));
    scatter<T>(at<char>(ws, how.values), bias, activation, y, first, count);
  });
}

template <class T>
void make_weight(const Conv2dWeightGradArgs& a, void* ws) {
  using C = compute_t<T>;
  const ConvSizes s(a);
  const Im2col how(s, ConvMap::weight_grad, workspace_cap(a.gw.device));
  const Window window(s, ConvMap::weight_grad), itself(s);
  const View sum = how.weight_matrix(ws, 0, a.gw.device), part = how.weight_matrix(ws, 1, a.gw.device);
  for_pieces(how, [&](std::int64_t first, std::int64_t count) {
    gather<T>(window, a.x, first, count, at<char>(ws, how.patches));
    gather<T>(itself, a.gy, first, count, at<char>(ws, how.values));
    multiply(how.product(ws, count, first > 0, a.gw.device), product_workspace(how, ws));
    if (first > 0) elementwise<C, C, C>(Plus(), sum, sum, part);
  });
  const View to = in_order(a.gw, s, how.map);
  const View from = dense_weights(how, ws, to, how.dtype);
  to.dtype == dtype_of<T> ? elementwise<T, C>(Same(), to, from) : elementwise<C, C>(Same(), to, from);
}

}  // namespace

void im2col_forward(const Conv2dArgs& a, void* ws) {
  visit_floating(a.x.dtype, [&](auto zero) {
    make_images<decltype(zero)>(ConvSizes(a), ConvMap::forward, a.x, a.weight, a.bias, a.activation, a.y, ws);
  });
}

void im2col_input_grad(const Conv2dInputGradArgs& a, void* ws) {
  visit_floating(a.gx.dtype, [&](auto zero) {
    make_images<decltype(zero)>(ConvSizes(a), ConvMap::input_grad, a.gy, a.weight, {}, Activation::none, a.gx, ws);
  });
}

void im2col_weight_grad(const Conv2dWeightGradArgs& a, void* ws) {
  visit_floating(a.x.dtype, [&](auto zero) { make_weight<decltype(zero)>(a, ws); });
}

}  // namespace bytetape::cuda
