#include "bytetape/autograd/ops/elementwise.h"

namespace bytetape::elementwise {

void check_fits(Scalar number, const Tensor& x) {
  check<DTypeError>(is_floating(x.dtype()) || fits(number, x.dtype()), x.dtype(), " cannot represent the number ",
                    number, ", got ", describe(x), "; convert the tensor with to(x, dtype)");
}

void check_pair(const Operand& a, const Operand& b) {
  if (!a.is_number() && !b.is_number()) return check_same_type(a.tensor(), b.tensor());
  const Tensor& x = tensor_of(a, b);
  check_defined(x);
  check_fits(a.is_number() ? a.number() : b.number(), x);
}

void check_into(const Tensor& a, const Operand& b) {
  check_arithmetic(a);
  check_pair(a, b);
  if (b.is_number()) return check_in_place(a);
  check_in_place(a, {&b.tensor()});
  check(broadcasts_to(b.tensor().shape(), a.shape()), "expected b to broadcast to the shape of a, ", describe(a),
        ", because the op is in place, got ", describe(b.tensor()));
}

Tensor output(const Operand& first, const Operand& second, DType dtype) {
  if (first.is_number() || second.is_number()) return empty_like(tensor_of(first, second), dtype);
  const Tensor &a = first.tensor(), &b = second.tensor();
  if (a.shape() == b.shape()) return empty_like(a.is_contiguous() ? b : a, dtype);
  Shape shape = a.shape();
  check(broadcast_into(shape, b.shape()), describe(a), " and ", describe(b), " do not broadcast");
  if (shape == a.shape()) return empty_like(a, dtype);
  if (shape == b.shape()) return empty_like(b, dtype);
  return empty(shape, dtype, a.device());
}

}  // namespace bytetape::elementwise
