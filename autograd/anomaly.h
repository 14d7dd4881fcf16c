#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Throws AutogradError, naming the running op and module, if x holds a NaN. `what` names x in the message.
void throw_if_nan(const Tensor& x, const char* what);

}  // namespace bytetape
