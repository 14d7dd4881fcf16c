#include "bytetape/autograd/ops/activation.h"

#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/elementwise.h"

namespace bytetape {

Tensor activation_grad(Activation activation, Saved& y, const Tensor& gy, const InputGrads& gx) {
  if (activation == Activation::none) return gy;
  if (grad_enabled()) return where(y.get() <= 0, 0, gy);
  Tensor g = elementwise::fused<&Kernels::relu_backward>(y, gy, gx);
  if (!gx.keeps_graph()) y.release();  // before what else the rule allocates
  return g;
}

}  // namespace bytetape
