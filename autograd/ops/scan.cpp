#include "bytetape/autograd/ops/scan.h"

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/kernels/scan.h"

namespace bytetape {

using enum AttributeType;

static Tensor cumsum_along(const Tensor& x, std::int64_t dim, bool is_reversed);

struct CumsumBackward final : Node {
  int dim = 0;
  bool is_reversed = false;
  void backward(const Grads& gy, InputGrads& gx) override;
};
static Tensor cumsum_along(const Tensor& x, std::int64_t dim, bool is_reversed) {
  check_defined(x);
  const int d = wrap_dim(dim, x.shape());
  if (x.rank() == 0) return reshape(cumsum_along(reshape(x, {1}), 0, is_reversed), {});
  Tensor y = empty_like(x, is_floating(x.dtype()) ? x.dtype() : DType::i64);
  run<&ScanKernels::cumsum>(x.device(), x.read(), d, is_reversed, y.write());
  if (auto* node = record<CumsumBackward>(y, x)) {
    node->dim = d;
    node->is_reversed = is_reversed;
  }
  return y;
}
constexpr OpDefinition cumsum_backward_op{
    .name = "cumsum_backward", .attributes = {{"dim", integer}, {"is_reversed", boolean}}, .family = Family::scan};
void CumsumBackward::backward(const Grads& gy, InputGrads& gx) {
  const Op<cumsum_backward_op> op(gy[0], dim, !is_reversed);
  gx[0] = op.result(cumsum_along(gy[0], dim, !is_reversed));
}
constexpr OpDefinition cumsum_op{
    .name = "cumsum", .attributes = {{"dim", integer}}, .family = Family::scan, .autocast = AutocastClass::f32};
Tensor cumsum(const Tensor& x, std::int64_t dim) {
  const Op<cumsum_op> op(x, dim);
  const Tensor y = cumsum_along(op.input(x), dim, false);
  return x.rank() == 0 ? op.composed(y) : op.result(y);
}

}  // namespace bytetape
