#include "bytetape/autograd/ops/select.h"

#include "bytetape/autograd/ops/elementwise.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/core/factories.h"

namespace bytetape {
namespace {

using elementwise::operand;

template <auto Kernel>
Tensor compare(const Tensor& a, const Tensor& b) {
  check_same_type(a, b);
  Tensor y = elementwise::output(a, b, DType::boolean);
  run<Kernel>(y.device(), operand(a, y), operand(b, y), y.write());
  return y;
}

template <auto Kernel>
Tensor compare(const Tensor& a, Scalar b) {
  check_defined(a, "the input");
  elementwise::check_fits(b, a);
  Tensor y = empty_like(a, DType::boolean);
  run<Kernel>(y.device(), a.read(), ConstView::constant(b, a.dtype(), a.device(), a.shape()), y.write());
  return y;
}

/// The same for an order, which bool has none of.
template <auto Kernel, class B>
Tensor order(const Tensor& a, const B& b) {
  elementwise::check_arithmetic(a);
  return compare<Kernel>(a, b);
}

struct WhereBackward final : Node {
  Saved condition{this};
  Shape a, b;
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor c = condition.get(), zero = zeros({}, gy[0].dtype(), gy[0].device());
    if (gx.needs(1)) gx[1] = sum_to(where(c, gy[0], zero), a);
    if (gx.needs(2)) gx[2] = sum_to(where(c, zero, gy[0]), b);
  }
};

}  // namespace

Tensor eq(const Tensor& a, const Tensor& b) {
  const Op<"eq"> op;
  return compare<&Kernels::eq>(a, b);
}
Tensor eq(const Tensor& a, Scalar b) {
  const Op<"eq"> op;
  return compare<&Kernels::eq>(a, b);
}
Tensor ne(const Tensor& a, const Tensor& b) {
  const Op<"ne"> op;
  return compare<&Kernels::ne>(a, b);
}
Tensor ne(const Tensor& a, Scalar b) {
  const Op<"ne"> op;
  return compare<&Kernels::ne>(a, b);
}
Tensor lt(const Tensor& a, const Tensor& b) {
  const Op<"lt"> op;
  return order<&Kernels::lt>(a, b);
}
Tensor lt(const Tensor& a, Scalar b) {
  const Op<"lt"> op;
  return order<&Kernels::lt>(a, b);
}
Tensor le(const Tensor& a, const Tensor& b) {
  const Op<"le"> op;
  return order<&Kernels::le>(a, b);
}
Tensor le(const Tensor& a, Scalar b) {
  const Op<"le"> op;
  return order<&Kernels::le>(a, b);
}
Tensor gt(const Tensor& a, const Tensor& b) {
  const Op<"gt"> op;
  return order<&Kernels::gt>(a, b);
}
Tensor gt(const Tensor& a, Scalar b) {
  const Op<"gt"> op;
  return order<&Kernels::gt>(a, b);
}
Tensor ge(const Tensor& a, const Tensor& b) {
  const Op<"ge"> op;
  return order<&Kernels::ge>(a, b);
}
Tensor ge(const Tensor& a, Scalar b) {
  const Op<"ge"> op;
  return order<&Kernels::ge>(a, b);
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const Op<"where"> op;
  check_same_device(condition, a);
  check_same_type(a, b);
  check<DTypeError>(condition.dtype() == DType::boolean, "the condition must be bool, got ", describe(condition));
  Shape shape = condition.shape();
  check(broadcast_into(shape, a.shape()) && broadcast_into(shape, b.shape()), describe(condition), ", ", describe(a),
        " and ", describe(b), " do not broadcast");
  const Tensor& like = a.shape() == shape ? a : b.shape() == shape ? b : condition;
  Tensor y = like.shape() == shape ? empty_like(like, a.dtype()) : empty(shape, a.dtype(), a.device());
  run<&Kernels::where>(y.device(), operand(condition, y), operand(a, y), operand(b, y), y.write());
  if (auto* node = record<WhereBackward>(y, condition, a, b)) {
    node->condition.save(condition);
    node->a = a.shape(), node->b = b.shape();
  }
  return y;
}

}  // namespace bytetape
