#include "bytetape/autograd/ops/loss.h"

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/softmax.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/loss.h"

namespace bytetape {

using enum AttributeType;

namespace {

int class_dim(const Tensor& logits) { return logits.rank() == 1 ? 0 : 1; }

/// Returns the shape of a target of class indices.
Shape rows_shape(const Tensor& logits) {
  Shape rows;
  for (int d = 0; d < logits.rank(); ++d)
    if (d != class_dim(logits)) rows.push_back(logits.shape()[d]);
  return rows;
}

void check_weight(const Tensor& weight, const Tensor& logits) {
  if (!weight.defined()) return;
  const std::int64_t classes = logits.size(class_dim(logits));
  check_coefficient(weight, "weight", logits);
  check(weight.shape() == Shape{classes}, "expected a weight for each of the ", classes, " classes of ",
        describe(logits), ", got ", describe(weight));
  check<AutogradError>(!any_requires_grad({&weight}), "the weight of classes, ", describe(weight),
                       ", requires grad, but gets none; detach() it");
}

void check_classes(const Tensor& logits, const Tensor& target) {
  check(logits.rank() > 0 && target.shape() == rows_shape(logits),
        "expected logits (n, c) and target (n), or logits (n, c, d1, ...) and target (n, d1, ...), got ",
        describe(logits), " and ", describe(target));
}

void check_inputs(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  check_same_device(logits, target);
  check_floating(logits);
  const bool holds_classes = target.dtype() == DType::i64;
  check<DTypeError>(holds_classes || (is_floating(target.dtype()) && target.shape() == logits.shape()),
                    "expected a target of class indices (i64), got ", describe(target),
                    "; one of probabilities would have the shape of the logits, ", describe(logits));
  check<ValueError>(options.label_smoothing >= 0 && options.label_smoothing <= 1,
                    "label_smoothing must be in [0, 1], got ", options.label_smoothing);
  if (holds_classes) return check_classes(logits, target);
  check(logits.rank() > 0, "expected logits (c), (n, c) or (n, c, d1, ...), got ", describe(logits));
  check_coefficient(target, "target", logits);
  check<ValueError>(options.ignore_index < 0, "ignore_index, ", options.ignore_index,
                    ", is a class, and the target holds probabilities");
}

/// Returns logits as (n * d1 * ..., c), without a copy if they are channels-last.
Tensor as_rows(const Tensor& logits, std::int64_t rows) {
  if (logits.rank() == 1) return unsqueeze(logits, 0);
  Dims order{0};
  for (int d = 2; d < logits.rank(); ++d) order.push_back(d);
  order.push_back(1);
  return reshape(permute(logits, order), {rows, logits.size(1)});
}

/// The parameters of a loss of rows (n, c).
struct RowLoss {
  std::int64_t ignore = -100;
  double smoothing = 0;
  Reduction reduction = Reduction::mean;
  bool takes_logits = true;  // else log-probabilities
};

/// For each row, gx = (softmax(x) sum(wanted) - wanted) gy, where `wanted` is the smoothed one-hot target times the
/// weights. For log-probabilities gx = -wanted gy.
struct CrossEntropyBackward final : Node {
  Saved logits{this}, target{this}, lse{this}, count{this}, weight{this}, total{this};
  RowLoss loss;
  std::int64_t classes = 0;
  DType dtype = DType::f32;  // of the input

  Tensor composed(const Tensor& gy) const {
    const Tensor t = target.get(), w = weight.get(), of_row = unsqueeze(t, 1);
    const Tensor hot = to(of_row == arange(0, classes, 1, DType::i64, t.device()), gy.dtype());
    const Tensor smooth = hot * (1 - loss.smoothing) + loss.smoothing / static_cast<double>(classes);
    const Tensor wanted = w.defined() ? smooth * w : smooth;
    // Without counted targets the gradient is 0. If all counted targets have weight 0, it is NaN, like the mean.
    const Tensor counted = sum(counts(t)), c = count.get();
    const Tensor share = loss.reduction == Reduction::mean ? gy / where(counted == 0, 1, c) : gy;
    const Tensor g = unsqueeze(expand(share, t.shape()), 1);
    const Tensor gx = where(counts(of_row) == 0, 0, (loss.takes_logits ? expected(wanted, w) - wanted : -wanted) * g);
    return to(gx, dtype);
  }
  /// Returns 1 if a target is a valid class, and 0 if it is ignored or out of range.
  Tensor counts(const Tensor& of_row) const {
    return where(of_row == loss.ignore, 0, where(of_row < 0, 0, where(of_row >= classes, 0, ones_like(of_row))));
  }
  Tensor expected(const Tensor& wanted, const Tensor& w) const {
    const Tensor p = softmax(to(logits.get(), wanted.dtype()), 1);
    return w.defined() ? p * sum(wanted, {1}, true) : p;
  }
  Tensor fused(const Tensor& gy, const InputGrads& gx) {
    const bool over_logits = logits.is_sole_owner(gx);
    const Tensor x = logits.get(), t = target.get();
    const Tensor g = over_logits         ? logits.take(gx)
                     : loss.takes_logits ? empty_like(x)
                                         : empty({t.size(0), classes}, dtype, gy.device());
    run<&LossKernels::cross_entropy_backward>(
        g.device(),
        CrossEntropyBackwardArgs{read(x), t.read(), read(lse.get()), count.get().read(), gy.read(), loss.ignore,
                                 loss.smoothing, loss.reduction, g.write(), read(weight.get()), read(total.get())});
    return g;
  }
  void backward(const Grads& gy, InputGrads& gx) override {
    gx[0] = grad_enabled() ? composed(gy[0]) : fused(gy[0], gx);
  }
};
/// Returns the loss of logits or log-probabilities (n, c), in accumulated(x.dtype()), the dtype of `weight`.
Tensor loss_of_rows(const Tensor& x, const Tensor& target, const Tensor& weight, const RowLoss& loss) {
  const Device device = x.device();
  const DType wide = accumulated(x.dtype());
  const bool smooths = loss.smoothing > 0 && weight.defined();
  const Tensor total = smooths ? sum(weight) : Tensor();
  Tensor y = empty(loss.reduction == Reduction::none ? target.shape() : Shape{}, wide, device);
  const Tensor lse = loss.takes_logits ? empty_like(target, wide) : Tensor();
  const Tensor count = empty({}, wide, device);
  run_planned<&LossKernels::cross_entropy>(
      device, {x.read(), target.read(), loss.ignore, loss.smoothing, loss.reduction, y.write(), write(lse),
               count.write(), read(weight), read(total)});
  if (auto* node = record<CrossEntropyBackward>(y, x)) {
    if (loss.takes_logits) node->logits.save(x);
    node->target.save(target);
    node->lse.save(lse);
    node->count.save(count);
    node->weight.save(weight);
    node->total.save(total);
    node->loss = loss;
    node->classes = x.size(1);
    node->dtype = x.dtype();
  }
  return y;
}

}  // namespace

/// Returns y, a loss of x that was computed in accumulated(x.dtype()), in the dtype that the op returns.
static Tensor narrowed(const Tensor& y, const Tensor& x) { return autocast_enabled() ? y : to(y, x.dtype()); }

/// Computes the loss for logits and targets of any supported shape.
static Tensor loss_of_classes(const Tensor& x, const Tensor& target, const Tensor& given_weight, const RowLoss& loss) {
  const Tensor weight = given_weight.defined() ? to(given_weight, accumulated(x.dtype())) : given_weight;
  if (x.rank() == 2) return narrowed(loss_of_rows(x, target, weight, loss), x);
  const std::int64_t rows = target.numel();
  const Tensor y = loss_of_rows(as_rows(x, rows), reshape(target, {rows}), weight, loss);
  return narrowed(loss.reduction == Reduction::none ? reshape(y, target.shape()) : y, x);
}

/// Computes the loss in accumulated(logits.dtype()), because a sum over a batch needs more than 16 bits.
static Tensor loss_of_probabilities(const Tensor& logits, const Tensor& probabilities,
                                    const CrossEntropyOptions& options) {
  const DType wide = accumulated(logits.dtype());
  const Tensor x = to(logits, wide), target = to(probabilities, wide);
  const int dim = class_dim(x);
  const std::int64_t classes = x.size(dim);
  const double smoothing = options.label_smoothing;
  Tensor wanted = smoothing > 0 ? target * (1 - smoothing) + smoothing / static_cast<double>(classes) : target;
  if (options.weight.defined()) {
    Shape by_class = Shape::filled(x.rank(), 1);
    by_class[dim] = classes;
    wanted = wanted * view(to(options.weight, wide), by_class);
  }
  const Tensor products = log_softmax(x, dim) * wanted;
  if (options.reduction == Reduction::none) return -sum(products, {dim});
  const Tensor y = -sum(products);
  return options.reduction == Reduction::sum ? y : y / static_cast<double>(numel(rows_shape(x)));
}

constexpr OpDefinition cross_entropy_op{
    .name = "cross_entropy",
    .inputs = {"logits", "target", "weight"},
    .attributes = {{"ignore_index", integer}, {"label_smoothing", number}, {"reduction", text}},
    .family = Family::loss,
    .autocast = AutocastClass::f32};
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  const Op<cross_entropy_op> op(logits, target, options.weight, options.ignore_index, options.label_smoothing,
                                options.reduction);
  check_inputs(logits, target, options);
  check_weight(options.weight, logits);
  if (target.dtype() != DType::i64)
    return op.composed(narrowed(loss_of_probabilities(logits, target, options), logits));
  return op.result(loss_of_classes(logits, target, options.weight,
                                   {options.ignore_index, options.label_smoothing, options.reduction}));
}

constexpr OpDefinition nll_loss_op{.name = "nll_loss",
                                   .inputs = {"log_probabilities", "target", "weight"},
                                   .attributes = {{"ignore_index", integer}, {"reduction", text}},
                                   .family = Family::loss,
                                   .autocast = AutocastClass::f32};
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, const NllLossOptions& options) {
  const Op<nll_loss_op> op(log_probabilities, target, options.weight, options.ignore_index, options.reduction);
  check_same_device(log_probabilities, target);
  check_floating(log_probabilities);
  check<DTypeError>(target.dtype() == DType::i64, "expected a target of class indices (i64), got ", describe(target));
  check_classes(log_probabilities, target);
  check_weight(options.weight, log_probabilities);
  return op.result(loss_of_classes(log_probabilities, target, options.weight,
                                   {options.ignore_index, 0, options.reduction, /*takes_logits=*/false}));
}

}  // namespace bytetape
