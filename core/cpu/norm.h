#pragma once
#include "bytetape/core/kernels.h"

namespace bytetape::cpu {

std::size_t batch_norm_workspace(ConstView x);
void batch_norm_statistics(ConstView x, View mean, View var, Workspace ws);
void batch_norm_apply(ConstView x, ConstView weight, ConstView bias, ConstView mean, ConstView var, double eps, View y);
void batch_norm_backward(ConstView x, ConstView weight, ConstView mean, ConstView var, ConstView gy, double eps,
                         bool training, View gx, View gw, View gb, Workspace ws);

}  // namespace bytetape::cpu
