#pragma once
#include "bytetape/core/kernels.h"

// The portable kernels: every floating dtype, on Eigen. core/cpu/onednn has the fast ones.
namespace bytetape::cpu::portable {

std::size_t matmul_workspace(ConstView a, ConstView b, ConstView bias, View y);
void matmul(ConstView a, ConstView b, ConstView bias, View y, Workspace ws);

}  // namespace bytetape::cpu::portable
