#pragma once
#include "bytetape/core/kernels.h"

namespace bytetape::cpu {

void add(ConstView a, ConstView b, View y);
void sub(ConstView a, ConstView b, View y);
void mul(ConstView a, ConstView b, View y);
void div(ConstView a, ConstView b, View y);
void pow(ConstView a, ConstView b, View y);
void neg(ConstView x, View y);

}  // namespace bytetape::cpu
