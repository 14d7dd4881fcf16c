#pragma once
#include <cstdint>

#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

// Group normalisation of x (n, c, h, w) over groups of c / groups adjacent channels of an image; `groups` divides c.
// Images are dense, and all row-major or all channels-last. weight, bias and their gradients are (c). mean and rstd = 1
// / sqrt(var + eps) are (n, groups). They are row-major, of the dtype in which x is accumulated.

struct GroupNormArgs {
  ConstView x, weight, bias;  // weight and bias may be undefined
  std::int64_t groups;
  double eps;
  View y, mean, rstd;
};
struct GroupNormBackwardArgs {
  ConstView x, weight, mean, rstd, gy;  // weight may be undefined
  std::int64_t groups;
  View gx, gw, gb;  // each may be undefined
};

struct GroupNormKernels {
  void (*group_norm)(const GroupNormArgs& args);
  Planned<GroupNormBackwardArgs> group_norm_backward;
};

}  // namespace bytetape
