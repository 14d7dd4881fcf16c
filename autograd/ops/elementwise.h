#pragma once
/// \file
/// How elementwise ops are put together; not an op itself. An op and its twin in place are one function each here:
///
///     Tensor exp(const Tensor& x) { return unary<"exp", &PointwiseKernels::exp, ExpBackward>(x); }
///     Tensor exp_(const Tensor& x) { return unary_<"exp_", &PointwiseKernels::exp, ExpBackward>(x); }
#include "bytetape/autograd/op.h"
#include "bytetape/autograd/operand.h"
#include "bytetape/autograd/ops/copy.h"

namespace bytetape::elementwise {

using memory::OpName;

/// Defined (ValueError), not bool (DTypeError).
inline void check_arithmetic(const Tensor& x) {
  check_defined(x);
  check<DTypeError>(x.dtype() != DType::boolean, "expected numbers, got ", describe(x),
                    "; convert it with to(x, dtype)");
}
/// A number takes x's dtype: it has to be one of its values.
void check_fits(Scalar number, const Tensor& x);
/// Two tensors of one dtype and device, or a tensor and a number that fits it.
void check_pair(const Operand& a, const Operand& b);
/// What a = f(a, b) needs, into a.
void check_into(const Tensor& a, const Operand& b);

/// The one that is a tensor; the first of two. Throws ValueError where none is.
inline const Tensor& tensor_of(const Operand& a, const Operand& b) {
  check<ValueError>(!a.is_number() || !b.is_number(), "expected a tensor, got two numbers");
  return a.is_number() ? b.tensor() : a.tensor();
}
/// The uninitialised result of a broadcast op: dense like whichever tensor already has its shape.
Tensor output(const Operand& a, const Operand& b, DType dtype);
/// x as an input of the kernel that writes y: broadcast, or the number repeated, as exact as the kernel computes.
inline ConstView input(const Operand& x, const Tensor& y) {
  if (x.is_number()) return ConstView::constant(x.number(), y.dtype(), y.device(), y.shape()).unrounded(x.number());
  return x.tensor().shape() == y.shape() ? x.tensor().read() : x.tensor().read().expand(y.shape());
}
/// The same for a kernel that compares: a number as a tensor of `dtype` would hold it.
inline ConstView held_input(const Operand& x, DType dtype, const Tensor& y) {
  return x.is_number() ? ConstView::constant(x.number(), dtype, y.device(), y.shape()) : input(x, y);
}

/// Puts what comes out of an op onto the tape: y, or its first input where it was overwritten.
inline void finish(Node* node, const Tensor& y, bool in_place) {
  if (in_place) return detail::add_overwritten(node, y);
  detail::check_anomaly(y);
  if (node) detail::add_output(*node, y);
}

// ---- one input

/// y = f(arguments..., x). A Rule with a member x keeps the input, one with a member y the output; what else it needs
/// are the arguments, which its set() gets.
template <auto Kernel, class Rule, class... Arguments>
Tensor run_unary(const Tensor& x, bool in_place, const Arguments&... arguments) {
  Tensor y = in_place ? x : empty_like(x);
  const Ref<Rule> node = prepare<Rule>(x);
  if constexpr (requires { node->x; })
    if (node) node->x.save(in_place ? clone(x) : x);
  run<Kernel>(x.device(), arguments..., x.read(), y.write());
  finish(node.get(), y, in_place);
  if (!node) return y;
  if constexpr (requires { node->y; }) node->y.save_output(y);
  if constexpr (sizeof...(arguments) > 0) node->set(arguments...);
  return y;
}
template <OpName name, auto Kernel, class Rule, auto Check = check_floating, class... Arguments>
Tensor unary(const Tensor& x, const Arguments&... arguments) {
  const Op<name> op;
  Check(x, arguments...);
  return run_unary<Kernel, Rule>(x, false, arguments...);
}
template <OpName name, auto Kernel, class Rule, auto Check = check_floating, class... Arguments>
Tensor unary_(const Tensor& x, const Arguments&... arguments) {
  const Op<name> op;
  Check(x, arguments...);
  check_in_place(x);
  return run_unary<Kernel, Rule>(x, true, arguments...);
}

/// What was saved, and where a backward kernel of (saved, gy) writes where nothing is recorded: over gy, or over what
/// was saved, where nobody else holds it. Saved is let go only where no memory is needed: the step can be taken again
/// without it.
struct SavedAndResult {
  Tensor saved, result;
};
inline SavedAndResult result_over(Saved& saved, const Tensor& gy, const InputGrads& gx) {
  const bool over_saved = saved.is_sole_owner(gx);
  const Tensor x = saved.get();
  const bool over_gy = may_overwrite(gy) && same_layout(gy.shape(), gy.strides(), x.strides());
  return {x, over_gy ? gy : over_saved ? saved.take(gx) : output(x, gy, gy.dtype())};
}
/// The gradient that the kernel gives there, by the op's arguments.
template <auto Kernel, class... Arguments>
Tensor fused(Saved& saved, const Tensor& gy, const InputGrads& gx, const Arguments&... arguments) {
  const SavedAndResult over = result_over(saved, gy, gx);
  run<Kernel>(gy.device(), arguments..., over.saved.read(), gy.read(), over.result.write());
  return over.result;
}

// ---- two inputs

/// An operand on its way into a rule: a tensor that is about to be overwritten is kept as a copy.
struct Keepable {
  const Operand& operand;
  bool is_overwritten;
};
/// An operand that backward needs: a saved tensor, or a number.
class SavedOperand {
 public:
  /// Owns what an Operand refers to.
  struct Value {
    Tensor tensor;
    Scalar number;
    operator Operand() const { return tensor.defined() ? Operand(tensor) : Operand(number); }
  };
  explicit SavedOperand(Node* node) : saved_(node) {}
  void save(const Keepable& x) {
    const Tensor& t = x.operand.tensor();
    saved_.save(x.is_overwritten ? clone(t) : t);
    number_ = x.operand.number();
  }
  Value get() const { return {saved_.get(), number_}; }

 private:
  Saved saved_;
  Scalar number_ = 0;
};

/// Base of the rules of two operands. Where an operand has not the output's shape, its gradient is summed back to it. A
/// rule that needs its operands hides keep(), which comes before the kernel runs.
struct BinaryNode : Node {
  Shape a_shape, b_shape;
  void keep(const Keepable&, const Keepable&) {}
};

template <auto Kernel, class Rule>
Tensor run_binary(const Operand& a, const Operand& b, const Tensor& y, bool in_place) {
  const Ref<Rule> node = prepare<Rule>(a.tensor(), b.tensor());
  if (node) {
    if (!a.is_number()) node->a_shape = a.tensor().shape();
    if (!b.is_number()) node->b_shape = b.tensor().shape();
    // b may be another view of what is overwritten: a *= a
    const bool b_too = in_place && !b.is_number() && &b.tensor().storage() == &y.storage();
    node->keep({a, in_place}, {b, b_too});
  }
  run<Kernel>(y.device(), input(a, y), input(b, y), y.write());
  finish(node.get(), y, in_place);
  return y;
}
/// An operand as an op takes it that needs f32; owns what it was converted to.
class Widened {
 public:
  explicit Widened(const Operand& x) : operand_(x), tensor_(widened(x.tensor())) {}
  operator Operand() const { return operand_.is_number() ? operand_ : Operand(tensor_); }

 private:
  Operand operand_;
  Tensor tensor_;
};
/// f(a, b) of what both tensors are under autocast.
template <class F>
Tensor of_promoted(const Operand& a, const Operand& b, const F& f) {
  const DType dtype = promoted(a.tensor().dtype(), b.tensor().dtype());
  return f(to(a.tensor(), dtype), to(b.tensor(), dtype));
}
/// f(a, b) of numbers.
template <OpName name, auto Kernel, class Rule>
Tensor binary(const Operand& a, const Operand& b) {
  const Op<name> op;
  if (promotes(a.tensor(), b.tensor())) return of_promoted(a, b, binary<name, Kernel, Rule>);
  check_arithmetic(tensor_of(a, b));
  check_pair(a, b);
  return run_binary<Kernel, Rule>(a, b, output(a, b, tensor_of(a, b).dtype()), false);
}
/// a = f(a, b).
template <OpName name, auto Kernel, class Rule>
Tensor binary_(const Tensor& a, const Operand& b) {
  const Op<name> op;
  check_into(a, b);
  return run_binary<Kernel, Rule>(a, b, a, true);
}

}  // namespace bytetape::elementwise
