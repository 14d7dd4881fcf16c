#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Throws AutogradError, naming the running op and module, where x holds a NaN. `what` says which tensor x is.
void throw_if_nan(const Tensor& x, const char* what);

}  // namespace bytetape
