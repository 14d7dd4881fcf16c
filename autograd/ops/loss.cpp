#include "bytetape/autograd/ops/loss.h"

#include <array>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/elementwise.h"
#include "bytetape/autograd/ops/softmax.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/factories.h"

namespace bytetape {
namespace {

void check_inputs(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  check_same_device(logits, target);
  check_floating(logits);
  check<DTypeError>(target.dtype() == DType::i64, "the target holds class indices (i64), got ", describe(target));
  check(logits.rank() == 2 && target.rank() == 1 && target.shape()[0] == logits.shape()[0],
        "expected logits (n, c) and target (n), got ", describe(logits), " and ", describe(target));
  check<ValueError>(options.label_smoothing >= 0 && options.label_smoothing <= 1,
                    "label_smoothing must be in [0, 1], got ", options.label_smoothing);
}

// How many targets count; all of them on a meta device, which knows none. Throws where one is no class.
std::int64_t count_targets(const Tensor& target, std::int64_t classes, std::int64_t ignore) {
  const Tensor range = empty({3}, DType::i64, target.device());
  run<&Kernels::target_range>(target.device(), target.read(), ignore, range.write());
  if (target.device().is_meta) return target.numel();
  std::array<std::int64_t, 3> host{};
  run<&Kernels::copy>(target.device(), range.read(), View(host.data(), DType::i64, Device::cpu(), {3}, {1}));
  const auto [low, high, count] = host;
  check<ValueError>(count == 0 || (low >= 0 && high < classes), "target ", low < 0 ? low : high, " is not in [0, ",
                    classes, "), the classes that the logits tell apart");
  return count;
}

Tensor reduced(const Tensor& losses, Reduction reduction, std::int64_t count) {
  if (reduction == Reduction::none) return losses;
  Tensor y = empty({}, losses.dtype(), losses.device());
  View one = y.write();
  one.shape = one.strides = {1};
  run<&Kernels::sum>(y.device(), losses.read(), one);
  if (reduction == Reduction::mean) run<&Kernels::div>(y.device(), y.read(), elementwise::input(count, y), y.write());
  return y;
}

}  // namespace

/// gx = (softmax(x) - wanted) gy by row, where what is wanted is the smoothed one-hot target.
struct CrossEntropyBackward final : Node {
  Saved logits{this}, target{this}, lse{this};
  CrossEntropyOptions options;
  std::int64_t count = 0;

  Tensor composed(const Tensor& x, const Tensor& t, const Tensor& g) const {
    const std::int64_t classes = x.size(1);
    const Tensor of_row = unsqueeze(t, 1);
    const Tensor hot = to(of_row == arange(0, classes, 1, DType::i64, x.device()), x.dtype());
    const Tensor wanted = hot * (1 - options.label_smoothing) + options.label_smoothing / static_cast<double>(classes);
    return where(of_row == options.ignore_index, 0, (softmax(x, 1) - wanted) * unsqueeze(g, 1));
  }
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor x = logits.get(), t = target.get();
    const bool shared = options.reduction == Reduction::mean && count > 0;  // of no targets there is no gradient
    const Tensor g = expand(shared ? gy[0] / count : gy[0], t.shape());
    if (grad_enabled()) {
      gx[0] = composed(x, t, g);
      return;
    }
    gx[0] = empty_like(x);
    run<&Kernels::cross_entropy_backward>(x.device(), x.read(), t.read(), lse.get().read(), g.read(),
                                          options.ignore_index, options.label_smoothing, gx[0].write());
  }
};
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  const Op<"cross_entropy"> op;
  check_inputs(logits, target, options);
  if (size_of(logits.dtype()) == 2)  // a sum over a batch needs more than 16 bits
    return to(cross_entropy(to(logits, DType::f32), target, options), logits.dtype());
  const std::int64_t count = count_targets(target, logits.shape()[1], options.ignore_index);
  Tensor losses = empty(target.shape(), logits.dtype(), logits.device());
  Tensor lse = empty(target.shape(), accumulated(logits.dtype()), logits.device());
  run<&Kernels::cross_entropy>(logits.device(), logits.read(), target.read(), options.ignore_index,
                               options.label_smoothing, losses.write(), lse.write());
  Tensor y = reduced(losses, options.reduction, count);
  if (auto* node = record<CrossEntropyBackward>(y, logits)) {
    node->logits.save(logits);
    node->target.save(target);
    node->lse.save(lse);
    node->options = options;
    node->count = count;
  }
  return y;
}

}  // namespace bytetape
