#pragma once
#include "bytetape/core/kernels/fwd.h"

namespace bytetape::cpu {

/// What the CPU can do.
const Kernels& kernels();

// Its families, each from the end of the source of its name.
ActivationKernels activation_kernels();
ArithmeticKernels arithmetic_kernels();
CompareKernels compare_kernels();
CopyKernels copy_kernels();
DropoutKernels dropout_kernels();
ElementwiseLossKernels elementwise_loss_kernels();
GradScaleKernels grad_scale_kernels();
GroupNormKernels group_norm_kernels();
ImagesKernels images_kernels();
IndexingKernels indexing_kernels();
InterpolateKernels interpolate_kernels();
LayerNormKernels layer_norm_kernels();
LossKernels loss_kernels();
NormKernels norm_kernels();
OptimizerKernels optimizer_kernels();
PadKernels pad_kernels();
PointwiseKernels pointwise_kernels();
PoolKernels pool_kernels();
RandomKernels random_kernels();
ReduceKernels reduce_kernels();
SoftmaxKernels softmax_kernels();

// Every floating dtype, on Eigen.
namespace portable {
ConvKernels conv_kernels();
MatmulKernels matmul_kernels();
}  // namespace portable

// f32 on oneDNN; other dtypes go to the portable kernels.
namespace onednn {
ConvKernels conv_kernels();
MatmulKernels matmul_kernels();
}  // namespace onednn

}  // namespace bytetape::cpu
