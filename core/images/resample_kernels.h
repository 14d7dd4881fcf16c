#pragma once
#include "bytetape/core/images/resample.h"
#include "bytetape/core/view.h"

namespace bytetape::resample {

/// The kernels of interpolation and of average pooling, which are the same on all devices. A device's Resampler has the
/// static functions weigh(rows, columns, x, y), which computes y as core/images/resample.h defines it, and
/// weigh_backward(rows, columns, gy, gx).
template <class Resampler>
struct Kernels {
  static void interpolate(const ConstView& x, const InterpolateParams& p, const View& y) {
    forward(x, y, [&](int d) { return Interpolation(p, x.shape, y.shape, d); });
  }
  static void interpolate_backward(const ConstView& gy, const InterpolateParams& p, const View& gx) {
    backward(gy, gx, [&](int d) { return Interpolation(p, gx.shape, gy.shape, d); });
  }
  static void avg_pool2d(const ConstView& x, const Pool2dParams& p, bool count_include_pad, const View& y) {
    forward(x, y, [&](int d) { return Windows(p, x.shape, y.shape, d, count_include_pad); });
  }
  static void avg_pool2d_backward(const ConstView& gy, const Pool2dParams& p, bool count_include_pad, const View& gx) {
    backward(gy, gx, [&](int d) { return Windows(p, gx.shape, gy.shape, d, count_include_pad); });
  }
  static void adaptive_avg_pool2d(const ConstView& x, const View& y) {
    forward(x, y, [&](int d) { return AdaptiveWindows(x.shape, y.shape, d); });
  }
  static void adaptive_avg_pool2d_backward(const ConstView& gy, const View& gx) {
    backward(gy, gx, [&](int d) { return AdaptiveWindows(gx.shape, gy.shape, d); });
  }

 private:
  template <class F>
  static void forward(const ConstView& x, const View& y, const F& axis) {
    Resampler::weigh(axis(0), axis(1), x, y);
  }
  template <class F>
  static void backward(const ConstView& gy, const View& gx, const F& axis) {
    Resampler::weigh_backward(axis(0), axis(1), gy, gx);
  }
};

}  // namespace bytetape::resample
