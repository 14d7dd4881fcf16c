#pragma once
#include "bytetape/core/error.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Throws ValueError if x is undefined. `name` names x in the message.
inline void check_defined(const Tensor& x, const char* name = "the input") {
  check<ValueError>(x.defined(), name, " is an undefined tensor");
}
/// Throws ValueError if x is undefined.
/// Throws DTypeError if x is not floating-point.
inline void check_floating(const Tensor& x) {
  check_defined(x);
  check<DTypeError>(is_floating(x.dtype()), "expected a floating dtype, got ", describe(x));
}

}  // namespace bytetape
