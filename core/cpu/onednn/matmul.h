#pragma once
#include "bytetape/core/kernels.h"

namespace bytetape::cpu::onednn {

// f32 on oneDNN; other dtypes go to the portable kernels.
std::size_t matmul_workspace(ConstView a, ConstView b, ConstView bias, View y);
void matmul(ConstView a, ConstView b, ConstView bias, View y, Workspace ws);

}  // namespace bytetape::cpu::onednn
