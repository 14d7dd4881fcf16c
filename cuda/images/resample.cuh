#pragma once
// Resampling of images to another size, as defined in core/images/resample.h. The counterpart of
// core/cpu/images/resample.h.
#include <type_traits>

#include "bytetape/core/images/resample_kernels.h"
#include "bytetape/cuda/images/pixels.cuh"

namespace bytetape::cuda {
namespace detail {

template <class T, int lanes, class Axis>
__global__ void __launch_bounds__(block_size)
    weigh_kernel(Layout layout, Axis rows, Axis columns, ImagePixels<const T> x, ImagePixels<T> y) {
  using C = compute_t<T>;
  layout.for_each<lanes>([&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    const resample::Range above = rows.inputs_of(h), beside = columns.inputs_of(w);
    C sum[lanes] = {};
    for (std::int64_t i = above.begin; i < above.end; ++i) {
      const T* from = x.at(n, c, i, beside.begin);
#pragma unroll 2
      for (std::int64_t j = beside.begin; j < beside.end; ++j, from += x.strides[3]) {
        const auto weight = static_cast<C>(rows.weight(h, i) * columns.weight(w, j));
        const auto values = cuda::load<lanes>(from);
        for (int k = 0; k < lanes; ++k) sum[k] += weight * widened(values.values[k]);
      }
    }
    const auto divisor = static_cast<C>(rows.divisor(h) * columns.divisor(w));
    Packed<T, lanes> result;
    for (int k = 0; k < lanes; ++k) result.values[k] = narrowed<T>(sum[k] / divisor);
    store(y.at(n, c, h, w), result);
  });
}

// Gathers for each input the outputs that depend on it. So every element is written once, by one thread, and sums have
// a fixed order.
template <class T, int lanes, class Axis>
__global__ void __launch_bounds__(block_size)
    weigh_backward_kernel(Layout layout, Axis rows, Axis columns, ImagePixels<const T> gy, ImagePixels<T> gx) {
  using C = compute_t<T>;
  layout.for_each<lanes>([&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
    const resample::Range above = rows.outputs_of(h), beside = columns.outputs_of(w);
    C sum[lanes] = {};
    for (std::int64_t i = above.begin; i < above.end; ++i)
#pragma unroll 2
      for (std::int64_t j = beside.begin; j < beside.end; ++j) {
        const auto weight = static_cast<C>(rows.weight(i, h) * columns.weight(j, w));
        const auto divisor = static_cast<C>(rows.divisor(i) * columns.divisor(j));
        const auto values = cuda::load<lanes>(gy.at(n, c, i, j));
        for (int k = 0; k < lanes; ++k) sum[k] += weight / divisor * widened(values.values[k]);
      }
    Packed<T, lanes> result;
    for (int k = 0; k < lanes; ++k) result.values[k] = narrowed<T>(sum[k]);
    store(gx.at(n, c, h, w), result);
  });
}

/// Calls f(zero, lanes): a zero of the views' element type, and the number of channels that a thread handles at once.
template <class F>
void with_lanes(const ConstView& from, const ConstView& to, F&& f) {
  visit_floating(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int most = 16 / sizeof(T);
    if (fits(from, most) && fits(to, most))
      f(zero, std::integral_constant<int, most>());
    else
      f(zero, std::integral_constant<int, 1>());
  });
}

}  // namespace detail

struct Resampler {
  template <class Axis>
  static void weigh(const Axis& rows, const Axis& columns, const ConstView& x, const View& y) {
    run(x, y, [&](auto zero, auto lanes, const auto& launch) {
      launch(detail::weigh_kernel<decltype(zero), lanes, Axis>, rows, columns);
    });
  }
  template <class Axis>
  static void weigh_backward(const Axis& rows, const Axis& columns, const ConstView& gy, const View& gx) {
    run(gy, gx, [&](auto zero, auto lanes, const auto& launch) {
      launch(detail::weigh_backward_kernel<decltype(zero), lanes, Axis>, rows, columns);
    });
  }

 private:
  /// Calls f(zero, lanes, launch), with which f launches its kernel.
  template <class F>
  static void run(const ConstView& from, const View& to, const F& f) {
    if (to.numel() == 0) return;
    detail::with_lanes(from, to, [&](auto zero, auto lanes) {
      using T = decltype(zero);
      const Layout layout(to, lanes);
      f(zero, lanes, [&](auto* kernel, const auto& rows, const auto& columns) {
        kernel<<<layout.blocks, layout.threads, 0, stream_of(to.device)>>>(
            layout, rows, columns, ImagePixels<const T>(from), ImagePixels<T>(to));
      });
    });
    check_launch();
  }
};
using ResampleKernels = resample::Kernels<Resampler>;

}  // namespace bytetape::cuda
