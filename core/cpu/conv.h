#pragma once
#include "bytetape/core/kernels.h"

// The portable kernels: every floating dtype, patches of the image as a matrix (im2col) times the weights, on Eigen.
// core/cpu/onednn has the fast ones.
namespace bytetape::cpu::portable {

std::size_t conv2d_workspace(ConstView x, ConstView weight, ConstView bias, View y, const Conv2dParams& p);
void conv2d(ConstView x, ConstView weight, ConstView bias, View y, const Conv2dParams& p, Workspace ws);
std::size_t conv2d_input_grad_workspace(ConstView gy, ConstView weight, View gx, const Conv2dParams& p);
void conv2d_input_grad(ConstView gy, ConstView weight, View gx, const Conv2dParams& p, Workspace ws);
std::size_t conv2d_weight_grad_workspace(ConstView x, ConstView gy, View gw, View gb, const Conv2dParams& p);
void conv2d_weight_grad(ConstView x, ConstView gy, View gw, View gb, const Conv2dParams& p, Workspace ws);

}  // namespace bytetape::cpu::portable
