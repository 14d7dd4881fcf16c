#include "bytetape/autograd/ops/loss.h"

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/pointwise.h"
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

}  // namespace

/// gx = (softmax(x) - wanted) gy by row, where what is wanted is the smoothed one-hot target.
struct CrossEntropyBackward final : Node {
  Saved logits{this}, target{this}, lse{this}, count{this};
  CrossEntropyOptions options;

  Tensor composed(const Tensor& x, const Tensor& t, const Tensor& gy) const {
    const std::int64_t classes = x.size(1);
    const Tensor of_row = unsqueeze(t, 1);
    const Tensor hot = to(of_row == arange(0, classes, 1, DType::i64, x.device()), x.dtype());
    const Tensor wanted = hot * (1 - options.label_smoothing) + options.label_smoothing / static_cast<double>(classes);
    // Of no targets there is no gradient.
    const Tensor share = options.reduction == Reduction::mean ? gy / clamp(count.get(), 1, x.size(0) + 1) : gy;
    const Tensor g = unsqueeze(expand(share, t.shape()), 1);
    return where(of_row == options.ignore_index, 0, (softmax(x, 1) - wanted) * g);
  }
  void backward(const Grads& gy, InputGrads& gx) override {
    const bool over_logits = logits.is_sole_owner(gx);
    const Tensor x = logits.get(), t = target.get();
    if (grad_enabled()) {
      gx[0] = composed(x, t, gy[0]);
      return;
    }
    gx[0] = over_logits ? logits.take(gx) : empty_like(x);
    run<&Kernels::cross_entropy_backward>(
        x.device(),
        CrossEntropyBackwardArgs{x.read(), t.read(), lse.get().read(), count.get().read(), gy[0].read(),
                                 options.ignore_index, options.label_smoothing, options.reduction, gx[0].write()});
  }
};
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  const Op<"cross_entropy"> op;
  check_inputs(logits, target, options);
  if (size_of(logits.dtype()) == 2) {  // a sum over a batch needs more than 16 bits
    const Tensor y = cross_entropy(to(logits, DType::f32), target, options);
    return autocast_enabled() ? y : to(y, logits.dtype());
  }
  const Device device = logits.device();
  Tensor y = empty(options.reduction == Reduction::none ? target.shape() : Shape{}, logits.dtype(), device);
  Tensor lse = empty_like(target, logits.dtype()), count = empty({}, logits.dtype(), device);
  run_planned<&Kernels::cross_entropy>(
      device, {logits.read(), target.read(), options.ignore_index, options.label_smoothing, options.reduction,
               y.write(), lse.write(), count.write()});
  if (auto* node = record<CrossEntropyBackward>(y, logits)) {
    node->logits.save(logits);
    node->target.save(target);
    node->lse.save(lse);
    node->count.save(count);
    node->options = options;
  }
  return y;
}

}  // namespace bytetape
