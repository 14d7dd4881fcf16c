#pragma once
#include "bytetape/core/kernels.h"

namespace bytetape::cpu {

void softmax(ConstView x, int dim, View y);
void log_softmax(ConstView x, int dim, View y);
void softmax_backward(ConstView y, ConstView gy, int dim, View gx);
void log_softmax_backward(ConstView y, ConstView gy, int dim, View gx);

}  // namespace bytetape::cpu
