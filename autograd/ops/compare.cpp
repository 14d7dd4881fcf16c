#include "bytetape/autograd/ops/compare.h"

#include "bytetape/autograd/ops/elementwise.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/core/kernels/compare.h"

namespace bytetape {

using namespace elementwise;

template <OpName name, auto Kernel>
Tensor compare(const Operand& a, const Operand& b) {
  const Op<name> op;
  if (promotes(a.tensor(), b.tensor())) return of_promoted(a, b, compare<name, Kernel>);
  const Tensor& x = tensor_of(a, b);
  check_pair(a, b);
  Tensor y = output(a, b, DType::boolean);
  run<Kernel>(y.device(), held_input(a, x.dtype(), y), held_input(b, x.dtype(), y), y.write());
  return y;
}

/// The same for an order, which bool has none of.
template <OpName name, auto Kernel>
Tensor order(const Operand& a, const Operand& b) {
  const Op<name> op;
  check_arithmetic(tensor_of(a, b));
  return compare<name, Kernel>(a, b);
}

Tensor eq(const Operand& a, const Operand& b) { return compare<"eq", &CompareKernels::eq>(a, b); }
Tensor ne(const Operand& a, const Operand& b) { return compare<"ne", &CompareKernels::ne>(a, b); }
Tensor lt(const Operand& a, const Operand& b) { return order<"lt", &CompareKernels::lt>(a, b); }
Tensor le(const Operand& a, const Operand& b) { return order<"le", &CompareKernels::le>(a, b); }
Tensor gt(const Operand& a, const Operand& b) { return order<"gt", &CompareKernels::gt>(a, b); }
Tensor ge(const Operand& a, const Operand& b) { return order<"ge", &CompareKernels::ge>(a, b); }

struct WhereBackward final : BinaryNode {
  Saved condition{this};
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor c = condition.get();
    if (gx.needs(0)) gx[0] = sum_to(where(c, gy[0], 0), a_shape);
    if (gx.needs(1)) gx[1] = sum_to(where(c, 0, gy[0]), b_shape);
  }
};
Tensor where(const Tensor& condition, const Operand& a, const Operand& b) {
  const Op<"where"> op;
  if (promotes(a.tensor(), b.tensor()))
    return of_promoted(a, b, [&](const Tensor& v, const Tensor& w) { return where(condition, v, w); });
  check<ValueError>(
      !a.is_number() || !b.is_number(),
      "expected a tensor among the two values, got two numbers; to(condition, dtype) may be what is meant");
  const Tensor& x = tensor_of(a, b);
  check_same_device(condition, x);
  check_pair(a, b);
  check<DTypeError>(condition.dtype() == DType::boolean, "the condition must be bool, got ", describe(condition));
  const Tensor &first = a.is_number() ? x : a.tensor(), &second = b.is_number() ? x : b.tensor();
  Shape shape = condition.shape();
  check(broadcast_into(shape, first.shape()) && broadcast_into(shape, second.shape()), describe(condition), ", ",
        describe(first), " and ", describe(second), " do not broadcast");
  const Tensor& like = first.shape() == shape ? first : second.shape() == shape ? second : condition;
  Tensor y = like.shape() == shape ? empty_like(like, x.dtype()) : empty(shape, x.dtype(), x.device());
  run<&CompareKernels::where>(y.device(), input(condition, y), input(a, y), input(b, y), y.write());
  if (auto* node = record<WhereBackward>(y, a.tensor(), b.tensor())) {
    node->condition.save(condition);
    node->a_shape = first.shape(), node->b_shape = second.shape();
  }
  return y;
}

}  // namespace bytetape
