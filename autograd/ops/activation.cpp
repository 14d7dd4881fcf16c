#include "bytetape/autograd/ops/activation.h"

#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/elementwise.h"

namespace bytetape {

Tensor activation_grad(Activation activation, Saved& y, const Tensor& gy, const InputGrads& gx) {
  if (activation == Activation::none) return gy;
  return grad_enabled() ? where(y.get() <= 0, 0, gy) : elementwise::fused<&Kernels::relu_backward>(y, gy, gx);
}

}  // namespace bytetape
