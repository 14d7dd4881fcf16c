#pragma once
#include "bytetape/core/kernels/fwd.h"

namespace bytetape::cuda {

// One for each family, in the file of its name.
ActivationKernels activation_kernels();
ArithmeticKernels arithmetic_kernels();
CompareKernels compare_kernels();
ConvKernels conv_kernels();
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
MatmulKernels matmul_kernels();
NormKernels norm_kernels();
OptimizerKernels optimizer_kernels();
PadKernels pad_kernels();
PointwiseKernels pointwise_kernels();
PoolKernels pool_kernels();
RandomKernels random_kernels();
ReduceKernels reduce_kernels();
SoftmaxKernels softmax_kernels();

}  // namespace bytetape::cuda
