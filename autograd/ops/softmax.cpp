#include "bytetape/autograd/ops/softmax.h"

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/kernels/softmax.h"

namespace bytetape {

using enum AttributeType;

namespace {

template <auto Kernel, class Rule>
Tensor along(const Tensor& x, std::int64_t dim) {
  check_floating(x);
  const int d = wrap_dim(dim, x.shape());
  if (x.rank() == 0) return reshape(along<Kernel, Rule>(reshape(x, {1}), 0), {});
  Tensor y = empty_like(x);
  run<Kernel>(x.device(), x.read(), d, y.write());
  if (auto* node = record<Rule>(y, x)) {
    node->y.save_output(y);
    node->dim = d;
  }
  return y;
}

template <auto Kernel>
Tensor fused_along(const Tensor& y, const Tensor& gy, int dim) {
  Tensor gx = empty_like(y);
  run<Kernel>(y.device(), y.read(), gy.read(), dim, gx.write());
  return gx;
}

}  // namespace

struct SoftmaxBackward final : Node {
  Saved y{this};
  int dim = 0;
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor p = y.get(), g = gy[0];
    gx[0] =
        grad_enabled() ? p * (g - sum(p * g, {dim}, true)) : fused_along<&SoftmaxKernels::softmax_backward>(p, g, dim);
  }
};
constexpr OpDefinition softmax_op{
    .name = "softmax", .attributes = {{"dim", integer}}, .family = Family::softmax, .autocast = AutocastClass::f32};
Tensor softmax(const Tensor& x, std::int64_t dim) {
  const Op<softmax_op> op(x, dim);
  const Tensor y = along<&SoftmaxKernels::softmax, SoftmaxBackward>(op.input(x), dim);
  return x.rank() == 0 ? op.composed(y) : op.result(y);
}

struct LogSoftmaxBackward final : Node {
  Saved y{this};
  int dim = 0;
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor log_p = y.get(), g = gy[0];
    gx[0] = grad_enabled() ? g - exp(log_p) * sum(g, {dim}, true)
                           : fused_along<&SoftmaxKernels::log_softmax_backward>(log_p, g, dim);
  }
};
constexpr OpDefinition log_softmax_op{
    .name = "log_softmax", .attributes = {{"dim", integer}}, .family = Family::softmax, .autocast = AutocastClass::f32};
Tensor log_softmax(const Tensor& x, std::int64_t dim) {
  const Op<log_softmax_op> op(x, dim);
  const Tensor y = along<&SoftmaxKernels::log_softmax, LogSoftmaxBackward>(op.input(x), dim);
  return x.rank() == 0 ? op.composed(y) : op.result(y);
}

}  // namespace bytetape
