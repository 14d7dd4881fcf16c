#pragma once
#include "bytetape/core/kernels.h"

namespace bytetape::cpu::onednn {

// f32 on oneDNN; other dtypes go to the portable kernels.
std::size_t conv2d_workspace(ConstView x, ConstView weight, ConstView bias, View y, const Conv2dParams& p);
void conv2d(ConstView x, ConstView weight, ConstView bias, View y, const Conv2dParams& p, Workspace ws);
std::size_t conv2d_input_grad_workspace(ConstView gy, ConstView weight, View gx, const Conv2dParams& p);
void conv2d_input_grad(ConstView gy, ConstView weight, View gx, const Conv2dParams& p, Workspace ws);
std::size_t conv2d_weight_grad_workspace(ConstView x, ConstView gy, View gw, View gb, const Conv2dParams& p);
void conv2d_weight_grad(ConstView x, ConstView gy, View gw, View gb, const Conv2dParams& p, Workspace ws);

}  // namespace bytetape::cpu::onednn
