#include "bytetape/cuda/norm/layer_norm_forward.cuh"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {

const LayerNormKernels& layer_norm_kernels() {
  static const LayerNormKernels all{
      .layer_norm = normalise_rows<true>,
      .layer_norm_backward = {layer_norm_plans().layer_norm_backward.plan, layer_norm_backward},
  };
  return all;
}

}  // namespace bytetape::cuda
