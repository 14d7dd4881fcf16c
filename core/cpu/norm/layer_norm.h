#pragma once
#include "bytetape/core/kernels/layer_norm.h"

namespace bytetape::cpu {

/// Layer normalisation, and RMS normalisation (core/kernels/rms_norm.h) if the mean is undefined.
void layer_norm(const LayerNormArgs& args);
Plan plan_layer_norm_backward(const LayerNormBackwardArgs& args);
void layer_norm_backward(const LayerNormBackwardArgs& args, const Plan& plan, Workspace ws);

}  // namespace bytetape::cpu
