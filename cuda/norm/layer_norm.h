#pragma once
#include "bytetape/core/kernels/layer_norm.h"

namespace bytetape::cuda {

/// Plans the gradients of layer normalisation, and of RMS normalisation if the mean is undefined.
Plan plan_layer_norm_backward(const LayerNormBackwardArgs& args);

// The kernels are in sources of their own, which compile side by side.
void layer_norm_backward(const LayerNormBackwardArgs& args, const Plan& plan, Workspace ws);
void rms_norm_backward(const LayerNormBackwardArgs& args, const Plan& plan, Workspace ws);

}  // namespace bytetape::cuda
