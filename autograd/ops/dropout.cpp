#include "bytetape/autograd/ops/dropout.h"

#include "bytetape/autograd/op.h"
#include "bytetape/core/kernels/dropout.h"

namespace bytetape {

using enum AttributeType;

static Tensor drop(const Tensor& x, const Tensor& y, double p, const PhiloxState& state);

/// Dropout is linear in x. The gradient drops and scales the same elements, as does the gradient of the gradient.
struct DropoutBackward final : Node {
  double p = 0;
  PhiloxState state;
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = drop(gy[0], may_overwrite(gy[0]) ? gy[0] : empty_like(gy[0]), p, state);
  }
};
/// Writes the elements of x that `state` keeps into y, scaled, and returns y.
static Tensor drop(const Tensor& x, const Tensor& y, double p, const PhiloxState& state) {
  run_planned<&DropoutKernels::dropout>(x.device(), {state, p, x.read(), y.write()});
  if (auto* node = record<DropoutBackward>(y, x)) node->p = p, node->state = state;
  return y;
}
Tensor detail::dropout_at(const PhiloxState& state, const Tensor& x, double p) {
  return p == 0 ? x : drop(x, empty_like(x), p, state);
}
constexpr OpDefinition dropout_op{
    .name = "dropout", .attributes = {{"p", number}, {"training", boolean}}, .family = Family::dropout};
Tensor dropout(const Tensor& x, double p, bool training, Generator& generator) {
  const Op<dropout_op> op(x, p, training);
  check_floating(x);
  check<ValueError>(p >= 0 && p <= 1, "p must be in [0, 1], got ", p);
  if (!training || p == 0) return x;
  const Ref<DropoutBackward> node = prepare<DropoutBackward>(x);
  Tensor y = empty_like(x);
  const Prepared<&DropoutKernels::dropout> kernel(x.device(), {{}, p, x.read(), y.write()});
  // Draws after everything that may fail, so that a repeated step draws the same numbers.
  const PhiloxState state = generator.take(x.numel(), x.device());
  kernel.launch({state, p, x.read(), y.write()});
  detail::note_result(y);
  if (!node) return y;
  detail::add_output(*node, y);
  node->p = p;
  node->state = state;
  return y;
}

}  // namespace bytetape
