#include "bytetape/autograd/ops/dropout.h"

#include "bytetape/autograd/op.h"
#include "bytetape/core/kernels/dropout.h"

namespace bytetape {

using enum AttributeType;

/// Linear in x: its gradient drops and scales the same elements, and so does that one's.
struct DropoutBackward final : Node {
  double p = 0;
  PhiloxState state;
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = may_overwrite(gy[0]) ? gy[0] : empty_like(gy[0]);
    run_planned<&DropoutKernels::dropout>(gy[0].device(), {state, p, gy[0].read(), gx[0].write()});
    if (auto* node = record<DropoutBackward>(gx[0], gy[0])) node->p = p, node->state = state;
  }
};
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
  // After all that may fail, so that a step that did draws the same numbers again.
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
