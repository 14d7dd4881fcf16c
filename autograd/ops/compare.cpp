#include "bytetape/autograd/ops/compare.h"

#include "bytetape/autograd/ops/elementwise.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/core/kernels/compare.h"

namespace bytetape {

using namespace elementwise;

/// bool has no order.
enum class Compares { equality, order };
template <const OpDefinition& definition, auto Kernel, Compares what>
Tensor compare(const Operand& a, const Operand& b) {
  const Op<definition> op(a, b);
  const Tensor& x = tensor_of(a, b);
  if (what == Compares::order) check_arithmetic(x);
  if (promotes(a.tensor(), b.tensor())) return op.composed(of_promoted(a, b, compare<definition, Kernel, what>));
  check_pair(a, b);
  Tensor y = output(a, b, DType::boolean);
  run<Kernel>(y.device(), held_input(a, x.dtype(), y), held_input(b, x.dtype(), y), y.write());
  return op.result(std::move(y));
}

constexpr OpDefinition comparison(detail::ConstantName name) {
  return {.name = name, .inputs = {"a", "b"}, .family = Family::compare, .autocast = AutocastClass::widest};
}

constexpr OpDefinition eq_op = comparison("eq");
Tensor eq(const Operand& a, const Operand& b) { return compare<eq_op, &CompareKernels::eq, Compares::equality>(a, b); }
constexpr OpDefinition ne_op = comparison("ne");
Tensor ne(const Operand& a, const Operand& b) { return compare<ne_op, &CompareKernels::ne, Compares::equality>(a, b); }
constexpr OpDefinition lt_op = comparison("lt");
Tensor lt(const Operand& a, const Operand& b) { return compare<lt_op, &CompareKernels::lt, Compares::order>(a, b); }
constexpr OpDefinition le_op = comparison("le");
Tensor le(const Operand& a, const Operand& b) { return compare<le_op, &CompareKernels::le, Compares::order>(a, b); }
constexpr OpDefinition gt_op = comparison("gt");
Tensor gt(const Operand& a, const Operand& b) { return compare<gt_op, &CompareKernels::gt, Compares::order>(a, b); }
constexpr OpDefinition ge_op = comparison("ge");
Tensor ge(const Operand& a, const Operand& b) { return compare<ge_op, &CompareKernels::ge, Compares::order>(a, b); }

struct WhereBackward final : BinaryNode {
  Saved condition{this};
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor c = condition.get();
    if (gx.needs(0)) gx[0] = sum_to(where(c, gy[0], 0), a_shape);
    if (gx.needs(1)) gx[1] = sum_to(where(c, 0, gy[0]), b_shape);
  }
};
constexpr OpDefinition where_op{
    .name = "where", .inputs = {"condition", "a", "b"}, .family = Family::compare, .autocast = AutocastClass::widest};
Tensor where(const Tensor& condition, const Operand& a, const Operand& b) {
  const Op<where_op> op(condition, a, b);
  if (promotes(a.tensor(), b.tensor()))
    return op.composed(of_promoted(a, b, [&](const Tensor& v, const Tensor& w) { return where(condition, v, w); }));
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
