#include "bytetape/core/kernels/rms_norm.h"
#include "bytetape/core/cpu/norm/layer_norm.h"
#include "bytetape/core/cpu/table.h"

namespace bytetape::cpu {

const RmsNormKernels& rms_norm_kernels() {
  static const RmsNormKernels all{
      .rms_norm = layer_norm,
      .rms_norm_backward = {plan_layer_norm_backward, layer_norm_backward},
  };
  return all;
}

}  // namespace bytetape::cpu
