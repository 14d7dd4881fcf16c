#pragma once
/// \file
/// Helpers that build elementwise ops. An op and its in-place form have one definition, and are one function
/// each:
///
///     constexpr OpDefinition exp_op{.name = "exp", .family = Family::pointwise, .autocast = AutocastClass::f32};
///     Tensor exp(const Tensor& x) { return unary<exp_op, &PointwiseKernels::exp, ExpBackward>(x); }
///     Tensor exp_(const Tensor& x) { return unary_<exp_op, &PointwiseKernels::exp, ExpBackward>(x); }
#include <optional>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/operand.h"
#include "bytetape/autograd/ops/copy.h"

namespace bytetape::elementwise {

/// Throws ValueError if x is undefined.
/// Throws DTypeError if x is bool.
inline void check_arithmetic(const Tensor& x) {
  check_defined(x);
  check<DTypeError>(x.dtype() != DType::boolean, "expected numbers, got ", describe(x),
                    "; convert it with to(x, dtype)");
}
/// Throws DTypeError if x's dtype cannot represent the number.
void check_fits(Scalar number, const Tensor& x);
/// Checks two tensors of one dtype and device, or a tensor and a number that its dtype can represent.
void check_pair(const Operand& a, const Operand& b);
/// Checks the operands of the in-place op a = f(a, b).
void check_into(const Tensor& a, const Operand& b);

/// Returns the operand that is a tensor; a if both are.
/// Throws ValueError if both are numbers.
inline const Tensor& tensor_of(const Operand& a, const Operand& b) {
  check<ValueError>(!a.is_number() || !b.is_number(), "expected a tensor, got two numbers");
  return a.is_number() ? b.tensor() : a.tensor();
}
/// Returns the uninitialised result of a broadcast op, with the strides of an operand that has its shape and is dense.
Tensor output(const Operand& a, const Operand& b, DType dtype);
/// Returns x as an input of the kernel that writes y: broadcast, or the number repeated, in the kernel's own precision.
inline ConstView input(const Operand& x, const Tensor& y) {
  if (x.is_number()) return ConstView::constant(x.number(), y.dtype(), y.device(), y.shape()).unrounded(x.number());
  return x.tensor().shape() == y.shape() ? x.tensor().read() : x.tensor().read().expand(y.shape());
}
/// Returns x as an input of a comparison that writes y: a number is rounded to `dtype` first.
inline ConstView held_input(const Operand& x, DType dtype, const Tensor& y) {
  return x.is_number() ? ConstView::constant(x.number(), dtype, y.device(), y.shape()) : input(x, y);
}

/// Puts an op's result on the tape: y, or its first input if the op is in place.
inline void finish(Node* node, const Tensor& y, bool in_place) {
  if (in_place) return detail::add_overwritten(node, y);
  detail::note_result(y);
  if (node) detail::add_output(*node, y);
}

// ---- one input

/// Base of the rules of ops y = f(x) that save x, and can recompute y from it.
template <auto Kernel>
struct RemadeFromInput : Node {
  Saved x{this};
  std::optional<std::uint32_t> result_version;  // none if the op was in place

  bool can_remake(const Tensor& y) const override { return x.is_intact() && y.storage().version() == result_version; }
  Tensor remake() const override {
    const Tensor input = x.get(), y = empty_like(input);
    run<Kernel>(input.device(), input.read(), y.write());
    return y;
  }
};

/// Runs y = f(arguments..., x) as an op. A Rule with a member x saves the input. One with a member y saves the output.
/// The rule's set() receives the arguments.
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
  if constexpr (requires { node->result_version; })
    if (!in_place) node->result_version = y.storage().version();
  if constexpr (sizeof...(arguments) > 0) node->set(arguments...);
  return y;
}
template <const OpDefinition& definition, auto Kernel, class Rule, auto Check = check_floating, class... Arguments>
Tensor unary(const Tensor& given, const Arguments&... arguments) {
  const Op<definition> op(given, arguments...);
  const Tensor& x = op.input(given);
  Check(x, arguments...);
  return run_unary<Kernel, Rule>(x, false, arguments...);
}
template <const OpDefinition& definition, auto Kernel, class Rule, auto Check = check_floating, class... Arguments>
Tensor unary_(const Tensor& x, const Arguments&... arguments) {
  const Op<in_place_of<definition>> op(x, arguments...);
  Check(x, arguments...);
  check_in_place(x);
  return run_unary<Kernel, Rule>(x, true, arguments...);
}

/// Returns the saved tensor, and the tensor that a backward kernel of (saved, gy) writes. Without recording, the result
/// is gy or the saved tensor if only the rule holds it. The saved tensor is released only if no memory is allocated, so
/// that a step that runs out of memory can be repeated.
struct SavedAndResult {
  Tensor saved, result;
};
inline SavedAndResult result_over(Saved& saved, const Tensor& gy, const InputGrads& gx) {
  const bool over_saved = saved.is_sole_owner(gx);
  const Tensor x = saved.get();
  const bool over_gy = may_overwrite(gy) && same_layout(gy.shape(), gy.strides(), x.strides());
  return {x, over_gy ? gy : over_saved ? saved.take(gx) : output(x, gy, gy.dtype())};
}
/// Runs the backward kernel with the op's arguments, and returns the gradient.
template <auto Kernel, class... Arguments>
Tensor fused(Saved& saved, const Tensor& gy, const InputGrads& gx, const Arguments&... arguments) {
  const SavedAndResult over = result_over(saved, gy, gx);
  run<Kernel>(gy.device(), arguments..., over.saved.read(), gy.read(), over.result.write());
  return over.result;
}

// ---- two inputs

/// An operand that a rule may save. A tensor that is about to be overwritten is saved as a copy.
struct Keepable {
  const Operand& operand;
  bool is_overwritten;
};
/// An operand that backward needs: a saved tensor, or a number.
class SavedOperand {
 public:
  /// Owns the tensor that an Operand refers to.
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

/// Base of the rules with two operands. It sums a gradient to the operand's shape if that was broadcast. A rule that
/// needs its operands hides keep(), which is called before the kernel runs.
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
    // b may be another view of the overwritten tensor: a *= a.
    const bool b_too = in_place && !b.is_number() && &b.tensor().storage() == &y.storage();
    node->keep({a, in_place}, {b, b_too});
  }
  run<Kernel>(y.device(), input(a, y), input(b, y), y.write());
  finish(node.get(), y, in_place);
  return y;
}
/// An operand of an op that computes in f32. Owns the converted tensor.
class Widened {
 public:
  explicit Widened(const Operand& x) : operand_(x), tensor_(widened(x.tensor())) {}
  operator Operand() const { return operand_.is_number() ? operand_ : Operand(tensor_); }

 private:
  Operand operand_;
  Tensor tensor_;
};
/// Calls f(a, b) on both tensors, converted as autocast requires.
template <class F>
Tensor of_promoted(const Operand& a, const Operand& b, const F& f) {
  const DType dtype = promoted(a.tensor().dtype(), b.tensor().dtype());
  return f(to(a.tensor(), dtype), to(b.tensor(), dtype));
}
/// Runs the elementwise op f(a, b).
template <const OpDefinition& definition, auto Kernel, class Rule>
Tensor binary(const Operand& a, const Operand& b) {
  const Op<definition> op(a, b);
  if (promotes(a.tensor(), b.tensor())) return op.composed(of_promoted(a, b, binary<definition, Kernel, Rule>));
  check_arithmetic(tensor_of(a, b));
  check_pair(a, b);
  return run_binary<Kernel, Rule>(a, b, output(a, b, tensor_of(a, b).dtype()), false);
}
/// Runs the in-place op a = f(a, b).
template <const OpDefinition& definition, auto Kernel, class Rule>
Tensor binary_(const Tensor& a, const Operand& b) {
  const Op<in_place_of<definition>> op(a, b);
  check_into(a, b);
  return run_binary<Kernel, Rule>(a, b, a, true);
}

}  // namespace bytetape::elementwise
