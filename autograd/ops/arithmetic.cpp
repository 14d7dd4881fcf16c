#include "bytetape/autograd/ops/arithmetic.h"

#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/elementwise.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/arithmetic.h"

namespace bytetape {

using namespace elementwise;

struct AddBackward final : BinaryNode {
  void backward(const Grads& gy, InputGrads& gx) override {
    if (gx.needs(0)) gx[0] = sum_to(gy[0], a_shape);
    if (gx.needs(1)) gx[1] = sum_to(gy[0], b_shape);
  }
};
constexpr OpDefinition add_op{
    .name = "add", .inputs = {"a", "b"}, .family = Family::arithmetic, .autocast = AutocastClass::widest};
Tensor add(const Operand& a, const Operand& b) { return binary<add_op, &ArithmeticKernels::add, AddBackward>(a, b); }
Tensor add_(const Tensor& a, const Operand& b) { return binary_<add_op, &ArithmeticKernels::add, AddBackward>(a, b); }

struct SubBackward final : BinaryNode {
  void backward(const Grads& gy, InputGrads& gx) override {
    if (gx.needs(0)) gx[0] = sum_to(gy[0], a_shape);
    if (gx.needs(1)) gx[1] = sum_to(-gy[0], b_shape);
  }
};
constexpr OpDefinition sub_op{
    .name = "sub", .inputs = {"a", "b"}, .family = Family::arithmetic, .autocast = AutocastClass::widest};
Tensor sub(const Operand& a, const Operand& b) { return binary<sub_op, &ArithmeticKernels::sub, SubBackward>(a, b); }
Tensor sub_(const Tensor& a, const Operand& b) { return binary_<sub_op, &ArithmeticKernels::sub, SubBackward>(a, b); }

struct MulBackward final : BinaryNode {
  SavedOperand a{this}, b{this};
  void keep(const Keepable& first, const Keepable& second) {
    if (needs(1)) a.save(first);
    if (needs(0)) b.save(second);
  }
  void backward(const Grads& gy, InputGrads& gx) override {
    if (gx.needs(0)) gx[0] = sum_to(gy[0] * b.get(), a_shape);
    if (gx.needs(1)) gx[1] = sum_to(gy[0] * a.get(), b_shape);
  }
};
constexpr OpDefinition mul_op{
    .name = "mul", .inputs = {"a", "b"}, .family = Family::arithmetic, .autocast = AutocastClass::widest};
Tensor mul(const Operand& a, const Operand& b) { return binary<mul_op, &ArithmeticKernels::mul, MulBackward>(a, b); }
Tensor mul_(const Tensor& a, const Operand& b) { return binary_<mul_op, &ArithmeticKernels::mul, MulBackward>(a, b); }

struct DivBackward final : BinaryNode {
  SavedOperand a{this}, b{this};
  void keep(const Keepable& first, const Keepable& second) {
    if (needs(1)) a.save(first);
    b.save(second);
  }
  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor ga = gy[0] / b.get();
    if (gx.needs(0)) gx[0] = sum_to(ga, a_shape);
    if (gx.needs(1)) gx[1] = sum_to(-(ga * (a.get() / b.get())), b_shape);
  }
};
constexpr OpDefinition div_op{
    .name = "div", .inputs = {"a", "b"}, .family = Family::arithmetic, .autocast = AutocastClass::widest};
Tensor div(const Operand& a, const Operand& b) {
  if (a.is_number()) return binary<div_op, &ArithmeticKernels::div, DivBackward>(a, Widened(b));
  return binary<div_op, &ArithmeticKernels::div, DivBackward>(a, b);
}
Tensor div_(const Tensor& a, const Operand& b) { return binary_<div_op, &ArithmeticKernels::div, DivBackward>(a, b); }

struct PowBackward final : BinaryNode {
  SavedOperand a{this}, exponent{this};
  void keep(const Keepable& first, const Keepable& second) {
    a.save(first);
    exponent.save(second);
  }
  // The slope of x^0 is 0, also at x = 0, where x^-1 is infinite. So the exponent 0 gives 0 * x^0.
  static Tensor slope_in_x(const Tensor& x, const SavedOperand::Value& e) {
    if (e.tensor.defined()) return e.tensor * pow(x, where(e.tensor == 0, 0, e.tensor - 1));
    const auto n = e.number.to<double>();
    return pow(x, n == 0 ? 0 : n - 1) * n;
  }
  // The slope of 0^e is 0 for e >= 0, where log(0) would give NaN.
  static Tensor slope_in_exponent(const Tensor& x, const Tensor& e) {
    const Tensor slope = pow(x, e) * log(x);
    return where(x == 0, where(e >= 0, 0, slope), slope);
  }
  void backward(const Grads& gy, InputGrads& gx) override {
    const SavedOperand::Value x = a.get(), e = exponent.get();
    if (gx.needs(0)) gx[0] = sum_to(gy[0] * slope_in_x(x.tensor, e), a_shape);
    if (!gx.needs(1)) return;
    const Tensor base = x.tensor.defined() ? x.tensor : full({}, x.number, gy[0].dtype(), gy[0].device());
    gx[1] = sum_to(gy[0] * slope_in_exponent(base, e.tensor), b_shape);
  }
};
constexpr OpDefinition pow_op{
    .name = "pow", .inputs = {"a", "exponent"}, .family = Family::arithmetic, .autocast = AutocastClass::f32};
Tensor pow(const Operand& a, const Operand& exponent) {
  return binary<pow_op, &ArithmeticKernels::pow, PowBackward>(Widened(a), Widened(exponent));
}
Tensor pow_(const Tensor& a, const Operand& exponent) {
  return binary_<pow_op, &ArithmeticKernels::pow, PowBackward>(a, exponent);
}

/// The rule of maximum and minimum. The chosen operand gets all of gy, or half of it if both are equal, as in PyTorch.
/// First(a, b) is whether a is chosen over b.
template <auto Kernel, auto First>
struct ChoiceBackward final : BinaryNode {
  SavedOperand a{this}, b{this};
  void keep(const Keepable& first, const Keepable& second) {
    a.save(first);
    b.save(second);
  }
  /// Returns the gradient of the operand x.
  static Tensor share(const Operand& x, const Operand& other, const Tensor& gy) {
    if (grad_enabled()) return where(First(other, x), 0, where(x == other, gy / 2, gy));
    const Tensor g = output(gy, gy, gy.dtype());
    run<Kernel>(g.device(), held_input(x, g.dtype(), g), held_input(other, g.dtype(), g), gy.read(), g.write());
    return g;
  }
  void backward(const Grads& gy, InputGrads& gx) override {
    const SavedOperand::Value x = a.get(), other = b.get();
    if (gx.needs(0)) gx[0] = sum_to(share(x, other, gy[0]), a_shape);
    if (gx.needs(1)) gx[1] = sum_to(share(other, x, gy[0]), b_shape);
  }
};
constexpr OpDefinition maximum_op{
    .name = "maximum", .inputs = {"a", "b"}, .family = Family::arithmetic, .autocast = AutocastClass::widest};
Tensor maximum(const Operand& a, const Operand& b) {
  return binary<maximum_op, &ArithmeticKernels::maximum, ChoiceBackward<&ArithmeticKernels::maximum_backward, gt>>(a,
                                                                                                                   b);
}
constexpr OpDefinition minimum_op{
    .name = "minimum", .inputs = {"a", "b"}, .family = Family::arithmetic, .autocast = AutocastClass::widest};
Tensor minimum(const Operand& a, const Operand& b) {
  return binary<minimum_op, &ArithmeticKernels::minimum, ChoiceBackward<&ArithmeticKernels::minimum_backward, lt>>(a,
                                                                                                                   b);
}

struct NegBackward final : Node {
  void backward(const Grads& gy, InputGrads& gx) override { gx[0] = -gy[0]; }
};
constexpr OpDefinition neg_op{.name = "neg", .family = Family::arithmetic};
Tensor neg(const Tensor& x) { return unary<neg_op, &ArithmeticKernels::neg, NegBackward, check_arithmetic>(x); }
Tensor neg_(const Tensor& x) { return unary_<neg_op, &ArithmeticKernels::neg, NegBackward, check_arithmetic>(x); }

}  // namespace bytetape
