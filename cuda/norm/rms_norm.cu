#include "bytetape/core/kernels/rms_norm.h"
#include "bytetape/cuda/norm/layer_norm_forward.cuh"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {

const RmsNormKernels& rms_norm_kernels() {
  static const RmsNormKernels all{
      .rms_norm = normalise_rows<false>,
      .rms_norm_backward = {rms_norm_plans().rms_norm_backward.plan, rms_norm_backward},
  };
  return all;
}

}  // namespace bytetape::cuda
