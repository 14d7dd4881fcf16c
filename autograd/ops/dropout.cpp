#include "bytetape/autograd/ops/dropout.h"

#include "bytetape/autograd/op.h"

namespace bytetape {
namespace {

Tensor drop(const Tensor& x, double p, const PhiloxState& state, bool over = false);

struct DropoutBackward final : Node {
  double p = 0;
  PhiloxState state;
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = drop(gy[0], p, state, may_overwrite(gy[0])); }
};

// Linear in x: its gradient drops and scales the same elements. `over`: into x.
Tensor drop(const Tensor& x, double p, const PhiloxState& state, bool over) {
  const Op<"dropout"> op;
  Tensor y = over ? x : empty_like(x);
  if (y.is_contiguous()) {
    run<&Kernels::dropout>(x.device(), state, p, x.read(), y.write());
  } else {  // elements are counted row-major: two transposing copies cost less than drawing across the layout
    Tensor rows = empty(x.shape(), x.dtype(), x.device());
    run<&Kernels::copy>(x.device(), x.read(), rows.write());
    run<&Kernels::dropout>(x.device(), state, p, rows.read(), rows.write());
    run<&Kernels::copy>(x.device(), rows.read(), y.write());
  }
  if (auto* node = record<DropoutBackward>(y, x)) node->p = p, node->state = state;
  return y;
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training, Generator& generator) {
  const Op<"dropout"> op;
  check_floating(x);
  check<ValueError>(p >= 0 && p <= 1, "expected a probability, got p = ", p);
  if (!training || p == 0) return x;
  // A meta tensor takes no numbers: a prediction leaves those of the run as they are.
  return drop(x, p, x.device().is_meta ? PhiloxState{} : generator.take(x.numel()));
}

}  // namespace bytetape
