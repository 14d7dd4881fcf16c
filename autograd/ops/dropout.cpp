#include "bytetape/autograd/ops/dropout.h"

#include "bytetape/autograd/op.h"

namespace bytetape {
namespace {

/// Elements are counted row-major: where y is not, what a drop() into it needs beside.
Tensor scratch_for(const Tensor& y) { return y.is_contiguous() ? y : empty(y.shape(), y.dtype(), y.device()); }

/// y = x with elements dropped and scaled, as `state` says.
void drop(const Tensor& x, double p, const PhiloxState& state, const Tensor& scratch, const Tensor& y) {
  if (scratch.is_same(y)) return run<&Kernels::dropout>(x.device(), state, p, x.read(), y.write());
  // Two transposing copies cost less than drawing across the layout.
  run<&Kernels::copy>(x.device(), x.read(), scratch.write());
  run<&Kernels::dropout>(x.device(), state, p, scratch.read(), scratch.write());
  run<&Kernels::copy>(x.device(), scratch.read(), y.write());
}

}  // namespace

/// Linear in x: its gradient drops and scales the same elements, and so does that one's.
struct DropoutBackward final : Node {
  double p = 0;
  PhiloxState state;
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = may_overwrite(gy[0]) ? gy[0] : empty_like(gy[0]);
    drop(gy[0], p, state, scratch_for(gx[0]), gx[0]);
    if (auto* node = record<DropoutBackward>(gx[0], gy[0])) node->p = p, node->state = state;
  }
};
Tensor dropout(const Tensor& x, double p, bool training, Generator& generator) {
  const Op<"dropout"> op;
  check_floating(x);
  check<ValueError>(p >= 0 && p <= 1, "expected a probability, got p = ", p);
  if (!training || p == 0) return x;
  const Ref<DropoutBackward> node = prepare<DropoutBackward>(x);
  Tensor y = empty_like(x), scratch = scratch_for(y);
  // After all that may fail, so that a step that did draws the same numbers again. A meta tensor takes no numbers: a
  // prediction leaves those of the run as they are.
  const PhiloxState state = x.device().is_meta ? PhiloxState{} : generator.take(x.numel());
  drop(x, p, state, scratch, y);
  detail::check_anomaly(y);
  if (!node) return y;
  detail::add_output(*node, y);
  node->p = p;
  node->state = state;
  return y;
}

}  // namespace bytetape
