#pragma once

// The names of what a device can do, for who needs no more (core/kernels.h).
namespace bytetape {

struct Kernels;
struct ActivationKernels;
struct ArithmeticKernels;
struct CompareKernels;
struct ConvKernels;
struct CopyKernels;
struct DropoutKernels;
struct ElementwiseLossKernels;
struct GradScaleKernels;
struct GroupNormKernels;
struct ImagesKernels;
struct IndexingKernels;
struct InterpolateKernels;
struct LayerNormKernels;
struct LossKernels;
struct MatmulKernels;
struct NormKernels;
struct OptimizerKernels;
struct PadKernels;
struct PointwiseKernels;
struct PoolKernels;
struct RandomKernels;
struct ReduceKernels;
struct SoftmaxKernels;

}  // namespace bytetape
