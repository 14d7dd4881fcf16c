#pragma once
#include "bytetape/core/view.h"

// Copy kernels that other kernels call.
namespace bytetape::cpu {

void fill(Scalar value, const View& y);
void copy(const ConstView& x, const View& y);

}  // namespace bytetape::cpu
