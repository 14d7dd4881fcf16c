#pragma once
#include "bytetape/cuda/attention/fused_attention.h"

namespace bytetape::cuda {

/// Launches cuDNN's fused attention, forward or backward. Recently used graphs are cached for each device.
/// Throws Error with cuDNN's reason if it refuses the attention, and if the device lacks memory for its code.
void run_fused(const FusedAttention& f);

}  // namespace bytetape::cuda
