#include "bytetape/cuda/images/resample.cuh"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
const InterpolateKernels& interpolate_kernels() {
  static const InterpolateKernels all{
      .interpolate = ResampleKernels::interpolate,
      .interpolate_backward = ResampleKernels::interpolate_backward,
  };
  return all;
}

}  // namespace bytetape::cuda
