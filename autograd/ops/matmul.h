#pragma once
#include "bytetape/core/activation.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Matrix product (m, k) @ (k, n), with batches and vectors as torch.matmul. Leading dims are batches and broadcast.
/// Tensors must be floating-point, of one dtype and device. Differentiable to any order.
/// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
Tensor matmul(const Tensor& a, const Tensor& b);
/// Returns activation(x @ weight^T + bias): x (..., in), weight (out, in), bias (out) or undefined -> (..., out).
/// gelu_tanh saves its input for backward. Differentiable to any order.
/// Throws ShapeError, DTypeError or DeviceError if the tensors do not fit.
/// Throws ValueError if the activation is not none, relu or gelu_tanh.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Activation activation = Activation::none);

}  // namespace bytetape
