#pragma once
#include "bytetape/core/kernels/optimizer.h"

namespace bytetape::cpu {

// See OptimizerKernels.
Plan plan(const ClipGradNormArgs& args);
void clip_grad_norm(const ClipGradNormArgs& args, const Plan& plan, Workspace ws);
void clip_grad_value(std::span<const View> gradients, double clip_value);

}  // namespace bytetape::cpu
