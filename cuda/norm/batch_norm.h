#pragma once
#include "bytetape/core/kernels/batch_norm.h"

namespace bytetape::cuda {

// Launches of batch normalisation, for its kernel table.
void batch_norm_statistics(const BatchNormStatisticsArgs& args, const Plan& plan, Workspace ws);
void batch_norm_backward(const BatchNormBackwardArgs& args, const Plan& plan, Workspace ws);
/// Whether backward needs a first pass, for sums over each channel.
bool has_sums(const BatchNormBackwardArgs& args);

}  // namespace bytetape::cuda
