#include "bytetape/autograd/ops/norm/normalized_rows.h"

#include <algorithm>

namespace bytetape {

void check_normalized(const Tensor& x, const Shape& shape, double eps) {
  check_floating(x);
  check(!shape.empty(), "normalized_shape is empty");
  check(shape.size() <= x.rank() && std::equal(shape.begin(), shape.end(), x.shape().end() - shape.size()),
        "expected x whose last dims are ", shape, ", got ", describe(x));
  check<ValueError>(eps >= 0, "eps must not be negative, got ", eps);
}

void check_normalized(const Tensor& coefficient, const char* name, const Tensor& x, const Shape& shape) {
  check_coefficient(coefficient, name, x);
  check(!coefficient.defined() || coefficient.shape() == shape, "expected a ", name, " ", shape, ", got ",
        describe(coefficient), " for x ", describe(x));
}

DType coefficient_dtype(const Tensor& x, std::initializer_list<const Tensor*> coefficients, bool is_recorded) {
  constexpr std::size_t vector = 16;  // bytes
  const auto fits = [&](const Tensor* v) {
    return !v->defined() || (v->dtype() == x.dtype() &&
                             static_cast<std::size_t>(v->storage_offset()) * size_of(v->dtype()) % vector == 0);
  };
  return !is_recorded && std::all_of(coefficients.begin(), coefficients.end(), fits) ? x.dtype()
                                                                                     : accumulated(x.dtype());
}

}  // namespace bytetape
