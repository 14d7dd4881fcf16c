#pragma once
#include "bytetape/core/kernels.h"

namespace bytetape::cpu {

void exp(ConstView x, View y);
void log(ConstView x, View y);
void sqrt(ConstView x, View y);
void rsqrt(ConstView x, View y);
void tanh(ConstView x, View y);
void sigmoid(ConstView x, View y);
void relu(ConstView x, View y);
void erf(ConstView x, View y);
void gelu(ConstView x, View y);
void abs(ConstView x, View y);
void sign(ConstView x, View y);
void clamp(Scalar low, Scalar high, ConstView x, View y);

void tanh_backward(ConstView y, ConstView gy, View gx);
void sigmoid_backward(ConstView y, ConstView gy, View gx);
void relu_backward(ConstView y, ConstView gy, View gx);
void gelu_backward(ConstView x, ConstView gy, View gx);

}  // namespace bytetape::cpu
