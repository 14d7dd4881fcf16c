#pragma once
#include "bytetape/core/kernels.h"

namespace bytetape::cpu {

void sum(ConstView x, View y);
void max(ConstView x, View y);
void min(ConstView x, View y);
void argmax(ConstView x, int dim, View y);

}  // namespace bytetape::cpu
