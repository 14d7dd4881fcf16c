#include "bytetape/autograd/ops/dropout.h"

#include "bytetape/autograd/op.h"
#include "bytetape/core/images/image_format.h"
#include "bytetape/core/kernels/dropout.h"

namespace bytetape {

using enum AttributeType;

static Tensor drop(const Tensor& x, const Tensor& y, double p, const PhiloxState& state);

/// Dropout is linear in x. The gradient drops and scales the same elements, as does the gradient of the gradient.
struct DropoutBackward final : Node {
  double p = 0;
  PhiloxState state;
  MemoryFormat format = MemoryFormat::contiguous;  // of x
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = drop(gy[0], result_of(gy[0]), p, state); }

 private:
  /// Returns the memory for the gradient of x: channels-last if x is, although gy may be row-major, from behind a
  /// flatten().
  Tensor result_of(const Tensor& gy) const {
    if (format == MemoryFormat::channels_last && !is_channels_last(gy.shape(), gy.strides()))
      return empty(gy.shape(), format, gy.dtype(), gy.device());
    return may_overwrite(gy) ? gy : empty_like(gy);
  }
};

static void remember(DropoutBackward& node, const Tensor& x, double p, const PhiloxState& state) {
  node.p = p;
  node.state = state;
  node.format = suggest_memory_format(x);
}

/// Writes the elements of x that `state` keeps into y, scaled, and returns y.
static Tensor drop(const Tensor& x, const Tensor& y, double p, const PhiloxState& state) {
  run_planned<&DropoutKernels::dropout>(x.device(), {state, p, x.read(), y.write()});
  if (auto* node = record<DropoutBackward>(y, x)) remember(*node, x, p, state);
  return y;
}
Tensor detail::dropout_at(const PhiloxState& state, const Tensor& x, double p) {
  return p == 0 ? x : drop(x, empty_like(x), p, state);
}

constexpr OpDefinition dropout_op{
    .name = "dropout", .attributes = {{"p", number}, {"training", boolean}}, .family = Family::dropout};
static Tensor dropout(const Tensor& x, double p, bool training, Generator& generator, bool row_major) {
  const Op<dropout_op> op(x, p, training);
  check_floating(x);
  check<ValueError>(p >= 0 && p <= 1, "p must be in [0, 1], got ", p);
  if (!training || p == 0) return x;
  const Ref<DropoutBackward> node = prepare<DropoutBackward>(x);
  Tensor y = row_major ? empty(x.shape(), x.dtype(), x.device()) : empty_like(x);
  const Prepared<&DropoutKernels::dropout> kernel(x.device(), {{}, p, x.read(), y.write()});
  // Draws after everything that may fail, so that a repeated step draws the same numbers.
  const PhiloxState state = generator.take(x.numel(), x.device());
  kernel.launch({state, p, x.read(), y.write()});
  detail::note_result(y);
  if (!node) return y;
  detail::add_output(*node, y);
  remember(*node, x, p, state);
  return y;
}

Tensor dropout(const Tensor& x, double p, bool training, Generator& generator) {
  return dropout(x, p, training, generator, false);
}
Tensor detail::row_major_dropout(const Tensor& x, double p, bool training, Generator& generator) {
  return dropout(x, p, training, generator, true);
}

}  // namespace bytetape
