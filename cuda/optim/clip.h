#pragma once
#include "bytetape/core/kernels/optimizer.h"

namespace bytetape::cuda {

// Implement the entries of OptimizerKernels. clip_plan.cpp has the plan.
void clip_grad_norm(const ClipGradNormArgs& args, const Plan& plan, Workspace ws);
void clip_grad_value(std::span<const View> gradients, double clip_value);

}  // namespace bytetape::cuda
