#pragma once
#include "bytetape/core/kernels/layer_norm.h"

namespace bytetape {

/// RMS normalisation of rows: layer normalisation with a mean of 0. mean, bias, gb, residual, sum and addend are
/// undefined. rstd is 1 / sqrt(mean(x^2) + eps).
struct RmsNormKernels {
  void (*rms_norm)(const LayerNormArgs& args);
  Planned<LayerNormBackwardArgs> rms_norm_backward;
};

}  // namespace bytetape
