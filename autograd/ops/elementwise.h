#pragma once
// How elementwise ops are put together; not an op itself.
#include "bytetape/autograd/op.h"

namespace bytetape::elementwise {

inline void check_arithmetic(const Tensor& x) {
  check_defined(x, "the input");
  check<DTypeError>(x.dtype() != DType::boolean, "expected numbers, got ", describe(x),
                    "; convert it with to(x, dtype)");
}

/// A number takes x's dtype: it has to be one of its values.
inline void check_fits(Scalar number, const Tensor& x) {
  check<DTypeError>(is_floating(x.dtype()) || fits(number, x.dtype()), "the number ", number, " is no ", x.dtype(),
                    " as in ", describe(x), "; convert the tensor with to(x, dtype)");
}

/// The uninitialised result of a broadcast op: dense like whichever input already has its shape.
Tensor output(const Tensor& a, const Tensor& b, DType dtype);

/// b as a kernel's second input: broadcast, or the number repeated, as exact as the kernel computes.
inline ConstView operand(const Tensor& b, const Tensor& y) {
  return b.shape() == y.shape() ? b.read() : b.read().expand(y.shape());
}
inline ConstView operand(Scalar b, const Tensor& y) {
  return ConstView::constant(b, y.dtype(), y.device(), y.shape()).unrounded(b);
}

/// y = f(x), for a kernel of one input. Checks are the op's.
template <auto Kernel>
Tensor unary(const Tensor& x) {
  Tensor y = empty_like(x);
  run<Kernel>(x.device(), x.read(), y.write());
  return y;
}

/// y = f(a, b), for tensors, or a tensor and a number.
template <auto Kernel>
Tensor binary(const Tensor& a, const Tensor& b) {
  check_arithmetic(a);
  check_same_type(a, b);
  Tensor y = output(a, b, a.dtype());
  run<Kernel>(y.device(), operand(a, y), operand(b, y), y.write());
  return y;
}
template <auto Kernel>
Tensor binary(const Tensor& a, Scalar b) {
  check_arithmetic(a);
  check_fits(b, a);
  Tensor y = empty_like(a);
  run<Kernel>(y.device(), a.read(), operand(b, y), y.write());
  return y;
}
template <auto Kernel>
Tensor binary(Scalar a, const Tensor& b) {
  check_arithmetic(b);
  check_fits(a, b);
  Tensor y = empty_like(b);
  run<Kernel>(y.device(), operand(a, y), b.read(), y.write());
  return y;
}

/// What a = f(a, b) needs, into a.
inline void check_into(const Tensor& a, const Tensor& b) {
  check_arithmetic(a);
  check_same_type(a, b);
  check_in_place(a, {&b});
  check(broadcasts_to(b.shape(), a.shape()), "the result does not fit into ", describe(a), " with ", describe(b));
}
inline void check_into(const Tensor& a, Scalar b) {
  check_arithmetic(a);
  check_fits(b, a);
  check_in_place(a);
}
template <auto Kernel, class B>
void write_into(Tensor& a, const B& b) {
  run<Kernel>(a.device(), a.read(), operand(b, a), a.write());
}
template <auto Kernel, class B>
void binary_in_place(Tensor& a, const B& b) {
  check_into(a, b);
  write_into<Kernel>(a, b);
}

}  // namespace bytetape::elementwise
