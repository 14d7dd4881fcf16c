#pragma once
#include "bytetape/core/kernels.h"

namespace bytetape::cpu {

void eq(ConstView a, ConstView b, View y);
void ne(ConstView a, ConstView b, View y);
void lt(ConstView a, ConstView b, View y);
void le(ConstView a, ConstView b, View y);
void gt(ConstView a, ConstView b, View y);
void ge(ConstView a, ConstView b, View y);
void where(ConstView condition, ConstView a, ConstView b, View y);

}  // namespace bytetape::cpu
