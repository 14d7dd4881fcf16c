#include "bytetape/autograd/ops/elementwise.h"

namespace bytetape::elementwise {

Tensor output(const Tensor& a, const Tensor& b, DType dtype) {
  if (a.shape() == b.shape()) return empty_like(a.is_contiguous() ? b : a, dtype);
  Shape shape = a.shape();
  check(broadcast_into(shape, b.shape()), describe(a), " and ", describe(b), " do not broadcast");
  if (shape == a.shape()) return empty_like(a, dtype);
  if (shape == b.shape()) return empty_like(b, dtype);
  return empty(shape, dtype, a.device());
}

}  // namespace bytetape::elementwise
