#include "bytetape/core/kernels/rms_norm.h"
#include "bytetape/cuda/norm/layer_norm.h"
#include "bytetape/cuda/plans.h"

namespace bytetape::cuda {

const RmsNormKernels& rms_norm_plans() {
  static const RmsNormKernels all{
      .rms_norm_backward = {plan_layer_norm_backward, nullptr},
  };
  return all;
}

}  // namespace bytetape::cuda
