#include "bytetape/cuda/images/resample.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

using resample::Interpolation;

void interpolate(const ConstView& x, const InterpolateParams& p, const View& y) {
  weigh(Interpolation(p, x.shape, y.shape, 0), Interpolation(p, x.shape, y.shape, 1), x, y);
}
void interpolate_backward(const ConstView& gy, const InterpolateParams& p, const View& gx) {
  weigh_backward(Interpolation(p, gx.shape, gy.shape, 0), Interpolation(p, gx.shape, gy.shape, 1), gy, gx);
}

}  // namespace

const InterpolateKernels& interpolate_kernels() {
  static const InterpolateKernels all{
      .interpolate = interpolate,
      .interpolate_backward = interpolate_backward,
  };
  return all;
}

}  // namespace bytetape::cuda
