#pragma once
#include "bytetape/core/random.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// \name Random numbers
/// Fill x, a floating-point tensor, and return it. The gradient of the overwritten values is 0. Throws as
/// check_in_place(), and: Throws DTypeError if x is not floating-point. Throws ValueError if high < low, the range is
/// infinite, or std is negative.
/// @{

/// Fills x with uniform numbers in [low, high).
Tensor uniform_(const Tensor& x, double low = 0, double high = 1, Generator& generator = default_generator());
Tensor normal_(const Tensor& x, double mean = 0, double std = 1, Generator& generator = default_generator());
/// @}

}  // namespace bytetape
