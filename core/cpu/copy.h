#pragma once
#include "bytetape/core/kernels.h"

namespace bytetape::cpu {

void fill(Scalar value, View y);
void copy(ConstView x, View y);
void arange(Scalar start, Scalar step, View y);

}  // namespace bytetape::cpu
