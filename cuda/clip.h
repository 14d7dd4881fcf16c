#pragma once
#include "bytetape/core/kernels/optimizer.h"

namespace bytetape::cuda {

/// As OptimizerKernels::clip_grad_norm.
void clip_grad_norm(const ClipGradNormArgs& args, const Plan& plan, Workspace ws);

}  // namespace bytetape::cuda
