#pragma once
#include "bytetape/core/kernels.h"

namespace bytetape::cpu {

void max_pool2d(ConstView x, const Pool2dParams& p, View y, View indices);
void max_pool2d_backward(ConstView gy, ConstView indices, const Pool2dParams& p, View gx);
void max_pool2d_gather(ConstView x, ConstView indices, const Pool2dParams& p, View y);

}  // namespace bytetape::cpu
