#include "bytetape/autograd/ops/elementwise.h"

namespace bytetape::elementwise {

Tensor output(const Tensor& a, const Tensor& b, DType dtype) {
  if (a.shape() == b.shape()) return empty_like(a.is_contiguous() ? b : a, dtype);
  const Shape shape = broadcast(a.shape(), b.shape());
  if (shape == a.shape()) return empty_like(a, dtype);
  if (shape == b.shape()) return empty_like(b, dtype);
  return empty(shape, dtype, a.device());
}

}  // namespace bytetape::elementwise
