#include "bytetape/core/cpu/images/resample.h"
#include "bytetape/core/cpu/table.h"

namespace bytetape::cpu {
const InterpolateKernels& interpolate_kernels() {
  static const InterpolateKernels all{
      .interpolate = ResampleKernels::interpolate,
      .interpolate_backward = ResampleKernels::interpolate_backward,
  };
  return all;
}

}  // namespace bytetape::cpu
