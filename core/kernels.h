#pragma once
#include "bytetape/core/kernels/activation.h"
#include "bytetape/core/kernels/arithmetic.h"
#include "bytetape/core/kernels/compare.h"
#include "bytetape/core/kernels/conv.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/kernels/dropout.h"
#include "bytetape/core/kernels/elementwise_loss.h"
#include "bytetape/core/kernels/grad_scale.h"
#include "bytetape/core/kernels/group_norm.h"
#include "bytetape/core/kernels/images.h"
#include "bytetape/core/kernels/indexing.h"
#include "bytetape/core/kernels/interpolate.h"
#include "bytetape/core/kernels/layer_norm.h"
#include "bytetape/core/kernels/loss.h"
#include "bytetape/core/kernels/matmul.h"
#include "bytetape/core/kernels/norm.h"
#include "bytetape/core/kernels/optimizer.h"
#include "bytetape/core/kernels/pad.h"
#include "bytetape/core/kernels/pointwise.h"
#include "bytetape/core/kernels/pool.h"
#include "bytetape/core/kernels/random.h"
#include "bytetape/core/kernels/reduce.h"
#include "bytetape/core/kernels/softmax.h"

namespace bytetape {
namespace detail {

template <class... Families>
struct KernelTable : Families... {
  /// Of families that are not given, every entry is null.
  template <class... Given>
  constexpr explicit KernelTable(const Given&... given) : Families()... {
    ((static_cast<Given&>(*this) = given), ...);
  }
};

}  // namespace detail

/// What a device can do: plain functions on views, family by family. Shapes, dtypes and devices were checked by the op;
/// a null entry is reported as not implemented. Kernels never allocate: one that needs scratch is planned
/// (core/kernels/planned.h).
///
/// Names: x inputs, y outputs, g gradients (gy of y, gx of x). Unless a line says otherwise every view may have any
/// strides, and floats are accumulated in at least f32. Only inputs of elementwise kernels may be constants.
struct Kernels : detail::KernelTable<ActivationKernels, ArithmeticKernels, CompareKernels, ConvKernels, CopyKernels,
                                     DropoutKernels, ElementwiseLossKernels, GradScaleKernels, GroupNormKernels,
                                     ImagesKernels, IndexingKernels, InterpolateKernels, LayerNormKernels, LossKernels,
                                     MatmulKernels, NormKernels, OptimizerKernels, PadKernels, PointwiseKernels,
                                     PoolKernels, RandomKernels, ReduceKernels, SoftmaxKernels> {
  using KernelTable::KernelTable;
};

}  // namespace bytetape
