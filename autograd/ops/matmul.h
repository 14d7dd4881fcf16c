#pragma once
#include "bytetape/core/activation.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// torch.matmul: (m, k) @ (k, n); vectors are promoted and dropped again; leading dims are batches and broadcast.
/// Floating, one dtype, one device. Differentiable twice and more.
Tensor matmul(const Tensor& a, const Tensor& b);
/// activation(x (..., in) @ weight (out, in)^T + bias (out)); bias may be undefined. Result (..., out). gelu_tanh keeps
/// what it is applied to for backward. Differentiable twice and more.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Activation activation = Activation::none);

}  // namespace bytetape
