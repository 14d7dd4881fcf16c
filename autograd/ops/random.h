#pragma once
#include "bytetape/core/random.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// \name Random numbers
/// Fill x, floating, and return it; what is overwritten gets no gradient. Throw DTypeError on integers, ValueError
/// where high < low, the range is infinite or std is negative, and what check_in_place() throws.
/// @{

/// Uniform in [low, high).
Tensor uniform_(const Tensor& x, double low = 0, double high = 1, Generator& generator = default_generator());
Tensor normal_(const Tensor& x, double mean = 0, double std = 1, Generator& generator = default_generator());
/// @}

}  // namespace bytetape
