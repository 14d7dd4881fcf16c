#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

// Elementwise functions of one floating tensor (abs and clamp: any numbers). DTypeError on others. Differentiable twice
// and more. The forms that end in _ write into x and return it.

Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
/// max(x, 0); the gradient at 0 is 0, as in PyTorch.
Tensor relu(const Tensor& x);
/// x * Phi(x), the exact form (Hendrycks & Gimpel, "Gaussian error linear units", 2016).
Tensor gelu(const Tensor& x);
Tensor abs(const Tensor& x);
/// -1, 0 or 1; its gradient is 0.
Tensor sign(const Tensor& x);
/// min(max(x, low), high). Throws ValueError where low > high.
Tensor clamp(const Tensor& x, Scalar low, Scalar high);

Tensor& exp_(Tensor& x);
Tensor& log_(Tensor& x);
Tensor& sqrt_(Tensor& x);
Tensor& rsqrt_(Tensor& x);
Tensor& tanh_(Tensor& x);
Tensor& sigmoid_(Tensor& x);
Tensor& relu_(Tensor& x);
Tensor& abs_(Tensor& x);
Tensor& clamp_(Tensor& x, Scalar low, Scalar high);

}  // namespace bytetape
