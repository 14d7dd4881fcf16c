#include "bytetape/cuda/plans.h"

#include "bytetape/core/kernels.h"

namespace bytetape::cuda {
namespace {

/// A plan without a launch.
template <class Args>
constexpr Planned<Args> planned{plan, nullptr};

}  // namespace

// Drawn in any layout.
Plan plan(const DropoutArgs&) { return {}; }

const Kernels& plans() {
  static const Kernels all(ActivationKernels{.bias_grad = planned<BiasGradArgs>},
                           ConvKernels{
                               .conv2d = planned<Conv2dArgs>,
                               .conv2d_input_grad = planned<Conv2dInputGradArgs>,
                               .conv2d_weight_grad = planned<Conv2dWeightGradArgs>,
                               .widens_weight_grad = widens_weight_grad,
                           },
                           DropoutKernels{.dropout = planned<DropoutArgs>},
                           GroupNormKernels{.group_norm_backward = planned<GroupNormBackwardArgs>},
                           IndexingKernels{.index_sum = planned<IndexSumArgs>},
                           LayerNormKernels{.layer_norm_backward = planned<LayerNormBackwardArgs>},
                           LossKernels{.cross_entropy = planned<CrossEntropyArgs>},
                           MatmulKernels{.matmul = planned<MatmulArgs>},
                           NormKernels{
                               .batch_norm_statistics = planned<BatchNormStatisticsArgs>,
                               .batch_norm_backward = planned<BatchNormBackwardArgs>,
                           },
                           OptimizerKernels{.clip_grad_norm = planned<ClipGradNormArgs>},
                           RandomKernels{.randperm = planned<RandpermArgs>}, ReduceKernels{.sum = planned<SumArgs>});
  return all;
}

}  // namespace bytetape::cuda
