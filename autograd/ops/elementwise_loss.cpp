#include "bytetape/autograd/ops/elementwise_loss.h"

#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/elementwise.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/core/kernels/elementwise_loss.h"

namespace bytetape {

using namespace elementwise;
using enum AttributeType;

namespace {

void check_target(const Tensor& x, const Tensor& target) {
  check_same_type(x, target);
  check_floating(x);
  check(x.shape() == target.shape(), "expected a target of the shape of ", describe(x), ", got ", describe(target));
}

void check_weight(const Tensor& weight, const char* name, const Tensor& x) {
  if (!weight.defined()) return;
  check_same_type(x, weight);
  check(broadcasts_to(weight.shape(), x.shape()), "the ", name, ", ", describe(weight), ", does not broadcast to ",
        describe(x));
}

Tensor reduced(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

// Losses of the difference d = x - target: their kernels, and the slope in d.

struct Mse {
  void run_forward(const Tensor& x, const Tensor& t, const Tensor& y) const {
    run<&ElementwiseLossKernels::mse_loss>(y.device(), x.read(), t.read(), y.write());
  }
  void run_backward(const Tensor& x, const Tensor& t, const Tensor& gy, const Tensor& gx) const {
    run<&ElementwiseLossKernels::mse_loss_backward>(gx.device(), x.read(), t.read(), gy.read(), gx.write());
  }
  Tensor slope(const Tensor& d) const { return d * 2; }
};

struct L1 {
  void run_forward(const Tensor& x, const Tensor& t, const Tensor& y) const {
    run<&ElementwiseLossKernels::l1_loss>(y.device(), x.read(), t.read(), y.write());
  }
  void run_backward(const Tensor& x, const Tensor& t, const Tensor& gy, const Tensor& gx) const {
    run<&ElementwiseLossKernels::l1_loss_backward>(gx.device(), x.read(), t.read(), gy.read(), gx.write());
  }
  Tensor slope(const Tensor& d) const { return sign(d); }
};

struct Huber {
  double delta = 1;
  void run_forward(const Tensor& x, const Tensor& t, const Tensor& y) const {
    run<&ElementwiseLossKernels::huber_loss>(y.device(), delta, x.read(), t.read(), y.write());
  }
  void run_backward(const Tensor& x, const Tensor& t, const Tensor& gy, const Tensor& gx) const {
    run<&ElementwiseLossKernels::huber_loss_backward>(gx.device(), delta, x.read(), t.read(), gy.read(), gx.write());
  }
  Tensor slope(const Tensor& d) const { return clamp(d, -delta, delta); }
};

}  // namespace

template <class Loss>
struct DifferenceLossBackward final : Node {
  Saved x{this}, target{this};
  Loss loss;

  Tensor fused(const Tensor& gy, const InputGrads& gx) {
    const Tensor t = target.get();
    const SavedAndResult over = result_over(x, gy, gx);
    loss.run_backward(over.saved, t, gy, over.result);
    return over.result;
  }
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor g = grad_enabled() ? gy[0] * loss.slope(x.get() - target.get()) : fused(gy[0], gx);
    if (gx.needs(1)) gx[1] = -g;
    if (gx.needs(0)) gx[0] = g;
  }
};
template <class Loss>
static Tensor difference_loss(const Tensor& input, const Tensor& wanted, Reduction reduction, const Loss& loss = {}) {
  const Tensor x = widened(input), target = widened(wanted);
  check_target(x, target);
  const Tensor y = empty_like(x);
  loss.run_forward(x, target, y);
  if (auto* node = record<DifferenceLossBackward<Loss>>(y, x, target)) {
    node->x.save(x);
    node->target.save(target);
    node->loss = loss;
  }
  return reduced(y, reduction);
}

constexpr OpDefinition mse_loss_op{.name = "mse_loss",
                                   .inputs = {"x", "target"},
                                   .attributes = {{"reduction", text}},
                                   .family = Family::elementwise_loss,
                                   .autocast = AutocastClass::f32};
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  const Op<mse_loss_op> op(x, target, reduction);
  return op.result(difference_loss<Mse>(x, target, reduction));
}

constexpr OpDefinition l1_loss_op{.name = "l1_loss",
                                  .inputs = {"x", "target"},
                                  .attributes = {{"reduction", text}},
                                  .family = Family::elementwise_loss,
                                  .autocast = AutocastClass::f32};
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  const Op<l1_loss_op> op(x, target, reduction);
  return op.result(difference_loss<L1>(x, target, reduction));
}

constexpr OpDefinition huber_loss_op{.name = "huber_loss",
                                     .inputs = {"x", "target"},
                                     .attributes = {{"reduction", text}, {"delta", number}},
                                     .family = Family::elementwise_loss,
                                     .autocast = AutocastClass::f32};
Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction reduction, double delta) {
  const Op<huber_loss_op> op(x, target, reduction, delta);
  check<ValueError>(delta > 0, "delta must be positive, got ", delta);
  return op.result(difference_loss<Huber>(x, target, reduction, {delta}));
}

/// Undefined weights and targets count as 1.
static Operand one_unless(const Tensor& x) { return x.defined() ? Operand(x) : Operand(1); }
static Tensor bce_with_logits(const Tensor& x, const Tensor& target, const Tensor& pos_weight);

/// y = (1 - t) x + (1 + (p - 1) t) softplus(-x), where t is the target and p is pos_weight. softplus(-x) itself is the
/// loss for t = p = 1.
struct BceWithLogitsBackward final : Node {
  Saved x{this}, target{this}, pos_weight{this};
  Shape pos_weight_shape;

  static Tensor slope(const Tensor& x, const Tensor& t, const Tensor& p) {
    const Tensor s = sigmoid(x);
    return p.defined() ? (1 + (p - 1) * t) * s - p * t : s - one_unless(t);
  }
  static Tensor slope_in_target(const Tensor& x, const Tensor& p) {
    return p.defined() ? (p - 1) * bce_with_logits(x, {}, {}) - x : -x;
  }
  Tensor fused(const Tensor& t, const Tensor& p, const Tensor& gy, const InputGrads& gx) {
    const SavedAndResult over = result_over(x, gy, gx);
    run<&ElementwiseLossKernels::bce_with_logits_backward>(
        gy.device(), over.saved.read(), input(one_unless(t), over.result), input(one_unless(p), over.result), gy.read(),
        over.result.write());
    return over.result;
  }
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor &g = gy[0], t = target.get(), p = pos_weight.get();
    if (gx.needs(1)) gx[1] = g * slope_in_target(x.get(), p);
    if (gx.needs(2)) gx[2] = sum_to(g * t * bce_with_logits(x.get(), {}, {}), pos_weight_shape);
    if (gx.needs(0)) gx[0] = grad_enabled() ? g * slope(x.get(), t, p) : fused(t, p, g, gx);
  }
};
static Tensor bce_with_logits(const Tensor& x, const Tensor& target, const Tensor& pos_weight) {
  const Tensor y = empty_like(x);
  run<&ElementwiseLossKernels::bce_with_logits>(x.device(), x.read(), input(one_unless(target), y),
                                                input(one_unless(pos_weight), y), y.write());
  auto* node = record<BceWithLogitsBackward>(y, x, target, pos_weight);
  if (!node) return y;
  node->x.save(x);
  if (node->needs(0) || node->needs(2)) node->target.save(target);
  if (node->needs(0) || node->needs(1)) node->pos_weight.save(pos_weight);
  if (pos_weight.defined()) node->pos_weight_shape = pos_weight.shape();
  return y;
}

constexpr OpDefinition binary_cross_entropy_with_logits_op{.name = "binary_cross_entropy_with_logits",
                                                           .inputs = {"x", "target", "weight", "pos_weight"},
                                                           .attributes = {{"reduction", text}},
                                                           .family = Family::elementwise_loss,
                                                           .autocast = AutocastClass::f32};
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& wanted,
                                        const BinaryCrossEntropyOptions& options) {
  const Op<binary_cross_entropy_with_logits_op> op(input, wanted, options.weight, options.pos_weight,
                                                   options.reduction);
  const Tensor x = op.input(input), target = op.input(wanted), weight = op.input(options.weight),
               pos_weight = op.input(options.pos_weight);
  check_target(x, target);
  check_weight(weight, "weight", x);
  check_weight(pos_weight, "pos_weight", x);
  const Tensor losses = bce_with_logits(x, target, pos_weight);
  return op.result(reduced(weight.defined() ? losses * weight : losses, options.reduction));
}

struct KlDivBackward final : Node {
  Saved x{this}, target{this};
  bool log_target = false;
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor t = target.get(), g = gy[0] * (log_target ? exp(t) : t);  // the gradient of -x
    if (gx.needs(1)) gx[1] = log_target ? g * (t - x.get() + 1) : gy[0] * (log(t) - x.get() + 1);
    if (gx.needs(0)) gx[0] = -g;
  }
};
static Tensor kl_divergences(const Tensor& x, const Tensor& target, bool log_target) {
  const Tensor y = empty_like(x);
  if (log_target)
    run<&ElementwiseLossKernels::kl_div_log>(x.device(), x.read(), target.read(), y.write());
  else
    run<&ElementwiseLossKernels::kl_div>(x.device(), x.read(), target.read(), y.write());
  if (auto* node = record<KlDivBackward>(y, x, target)) {
    if (node->needs(1)) node->x.save(x);
    node->target.save(target);
    node->log_target = log_target;
  }
  return y;
}

constexpr OpDefinition kl_div_op{.name = "kl_div",
                                 .inputs = {"x", "target"},
                                 .attributes = {{"reduction", text}, {"log_target", boolean}},
                                 .family = Family::elementwise_loss,
                                 .autocast = AutocastClass::f32};
Tensor kl_div(const Tensor& input, const Tensor& wanted, KlDivReduction reduction, bool log_target) {
  const Op<kl_div_op> op(input, wanted, reduction, log_target);
  const Tensor x = op.input(input), target = op.input(wanted);
  check_target(x, target);
  const Tensor y = kl_divergences(x, target, log_target);
  if (reduction == KlDivReduction::none) return op.result(y);
  if (reduction == KlDivReduction::mean) return op.result(mean(y));
  const bool divides = reduction == KlDivReduction::batchmean && x.rank() > 0;
  return op.result(divides ? sum(y) / x.size(0) : sum(y));
}

}  // namespace bytetape
