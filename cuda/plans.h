#pragma once

namespace bytetape {
struct Kernels;
struct Plan;
struct BiasGradArgs;
struct ClipGradNormArgs;
struct Conv2dArgs;
struct Conv2dInputGradArgs;
struct Conv2dWeightGradArgs;
struct DropoutArgs;
struct GroupNormBackwardArgs;
struct IndexSumArgs;
struct MatmulArgs;
struct BatchNormStatisticsArgs;
struct BatchNormBackwardArgs;
struct LayerNormBackwardArgs;
struct CrossEntropyArgs;
struct RandpermArgs;
struct SumArgs;
}  // namespace bytetape

namespace bytetape::cuda {

// How each planned kernel will run: host code without the toolkit, so that bytes are the same wherever they are asked
// for. One function for each argument struct.
Plan plan(const BiasGradArgs& args);
Plan plan(const ClipGradNormArgs& args);
Plan plan(const Conv2dArgs& args);
Plan plan(const Conv2dInputGradArgs& args);
Plan plan(const Conv2dWeightGradArgs& args);
Plan plan(const DropoutArgs& args);
Plan plan(const GroupNormBackwardArgs& args);
Plan plan(const IndexSumArgs& args);
Plan plan(const MatmulArgs& args);
Plan plan(const BatchNormStatisticsArgs& args);
Plan plan(const BatchNormBackwardArgs& args);
Plan plan(const LayerNormBackwardArgs& args);
Plan plan(const CrossEntropyArgs& args);
Plan plan(const RandpermArgs& args);
Plan plan(const SumArgs& args);

/// As ConvKernels::widens_weight_grad.
bool widens_weight_grad(const Conv2dWeightGradArgs& args);

/// A table of these, without launches.
const Kernels& plans();

}  // namespace bytetape::cuda
