#pragma once
#include "bytetape/core/error.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Throws ValueError where x is undefined; `name` says which tensor x is.
inline void check_defined(const Tensor& x, const char* name = "the input") {
  check<ValueError>(x.defined(), name, " is an undefined tensor");
}
/// Defined (ValueError), of a floating dtype (DTypeError).
inline void check_floating(const Tensor& x) {
  check_defined(x);
  check<DTypeError>(is_floating(x.dtype()), "expected a floating dtype, got ", describe(x));
}

}  // namespace bytetape
