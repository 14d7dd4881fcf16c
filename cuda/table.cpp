#include "bytetape/cuda/table.h"

#include "bytetape/core/kernels.h"
#include "bytetape/cuda/runtime/runtime.h"

namespace bytetape::cuda {

const Kernels& kernels() {
  static const Kernels all(activation_kernels(), arithmetic_kernels(), compare_kernels(), conv_kernels(),
                           copy_kernels(), dropout_kernels(), elementwise_loss_kernels(), grad_scale_kernels(),
                           group_norm_kernels(), images_kernels(), indexing_kernels(), interpolate_kernels(),
                           layer_norm_kernels(), loss_kernels(), matmul_kernels(), norm_kernels(), optimizer_kernels(),
                           pad_kernels(), pointwise_kernels(), pool_kernels(), random_kernels(), reduce_kernels(),
                           softmax_kernels());
  return all;
}

}  // namespace bytetape::cuda
