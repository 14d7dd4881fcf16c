#include "bytetape/autograd/ops/compare.h"

#include "bytetape/autograd/ops/elementwise.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/core/kernels/compare.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape {

using namespace elementwise;

/// Whether a comparison is defined for bool (equality) or not (order).
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

constexpr OpDefinition logical_and_op = comparison("logical_and");
Tensor logical_and(const Operand& a, const Operand& b) {
  return compare<logical_and_op, &CompareKernels::logical_and, Compares::equality>(a, b);
}
constexpr OpDefinition logical_or_op = comparison("logical_or");
Tensor logical_or(const Operand& a, const Operand& b) {
  return compare<logical_or_op, &CompareKernels::logical_or, Compares::equality>(a, b);
}
constexpr OpDefinition logical_xor_op = comparison("logical_xor");
Tensor logical_xor(const Operand& a, const Operand& b) {
  return compare<logical_xor_op, &CompareKernels::logical_xor, Compares::equality>(a, b);
}
constexpr OpDefinition logical_not_op{.name = "logical_not", .kind = OpKind::composite};
Tensor logical_not(const Tensor& x) {
  const Op<logical_not_op> op(x);
  check_defined(x);
  return op.result(x == 0);
}

static const Tensor& mask(const Tensor& x) {
  check_defined(x);
  check<DTypeError>(x.dtype() == DType::boolean, "expected a bool tensor, got ", describe(x),
                    "; logical_and and its like take any dtype");
  return x;
}
Tensor operator&(const Tensor& a, const Tensor& b) {
  const memory::Op<"operator&"> op;
  return logical_and(mask(a), mask(b));
}
Tensor operator|(const Tensor& a, const Tensor& b) {
  const memory::Op<"operator|"> op;
  return logical_or(mask(a), mask(b));
}
Tensor operator^(const Tensor& a, const Tensor& b) {
  const memory::Op<"operator^"> op;
  return logical_xor(mask(a), mask(b));
}
Tensor operator~(const Tensor& x) {
  const memory::Op<"operator~"> op;
  return logical_not(mask(x));
}

/// Runs a kernel that classifies floats. `of_integers` is the class of integers.
template <const OpDefinition& definition, auto Kernel, bool of_integers = false>
Tensor classify(const Tensor& x) {
  const Op<definition> op(x);
  check_defined(x);
  Tensor y = empty_like(x, DType::boolean);
  if (is_floating(x.dtype()))
    run<Kernel>(x.device(), x.read(), y.write());
  else
    run<&CopyKernels::fill>(x.device(), Scalar(of_integers), y.write());
  return op.result(std::move(y));
}
constexpr OpDefinition isnan_op{.name = "isnan", .family = Family::compare};
Tensor isnan(const Tensor& x) { return classify<isnan_op, &CompareKernels::isnan>(x); }
constexpr OpDefinition isinf_op{.name = "isinf", .family = Family::compare};
Tensor isinf(const Tensor& x) { return classify<isinf_op, &CompareKernels::isinf>(x); }
constexpr OpDefinition isfinite_op{.name = "isfinite", .family = Family::compare};
Tensor isfinite(const Tensor& x) { return classify<isfinite_op, &CompareKernels::isfinite, true>(x); }

struct MaskedFillBackward final : Node {
  Saved mask{this};
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor m = mask.get();
    if (gx.needs(0)) gx[0] = masked_fill(gy[0], m, 0);
    if (gx.needs(1)) gx[1] = sum_to(where(m, gy[0], 0), {});
  }
};
static void check_masked_fill(const Tensor& x, const Tensor& mask, const Operand& value) {
  check_same_device(x, mask);
  check_pair(x, value);
  check<DTypeError>(mask.dtype() == DType::boolean, "the mask must be bool, got ", describe(mask));
  check(broadcasts_to(mask.shape(), x.shape()), "expected a mask that broadcasts to the shape of x, ", describe(x),
        ", got ", describe(mask));
  check(value.is_number() || value.tensor().rank() == 0, "expected a number or a 0-D tensor as the value, got ",
        describe(value.tensor()));
}
static Tensor fill_masked(const Tensor& x, const Tensor& mask, const Operand& value, bool in_place) {
  const Tensor y = in_place ? x : empty_like(x);
  const Ref<MaskedFillBackward> node = prepare<MaskedFillBackward>(x, value.tensor());
  if (node) node->mask.save(mask);
  run<&CompareKernels::where>(y.device(), input(mask, y), input(value, y), x.read(), y.write());
  finish(node.get(), y, in_place);
  return y;
}
constexpr OpDefinition masked_fill_op{
    .name = "masked_fill", .inputs = {"x", "mask", "value"}, .family = Family::compare};
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value) {
  const Op<masked_fill_op> op(x, mask, value);
  check_masked_fill(x, mask, value);
  return fill_masked(x, mask, value, false);
}
Tensor masked_fill_(const Tensor& x, const Tensor& mask, const Operand& value) {
  const Op<in_place_of<masked_fill_op>> op(x, mask, value);
  check_masked_fill(x, mask, value);
  check_in_place(x, {&mask, &value.tensor()});
  return fill_masked(x, mask, value, true);
}

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
