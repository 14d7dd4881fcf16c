#pragma once
#include "bytetape/core/random.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// \name Random numbers
/// Fill x, a floating-point tensor, and return it. The gradient of the overwritten values is 0.
/// Throws AutogradError if x is a leaf that requires grad, or a view on the tape whose base is still in use.
/// Throws DTypeError if x is not floating-point.
/// Throws ValueError if elements of x share memory, high < low, the range is infinite, or std is negative.
/// @{

/// Fills x with uniform numbers in [low, high).
Tensor uniform_(const Tensor& x, double low = 0, double high = 1, Generator& generator = default_generator());
Tensor normal_(const Tensor& x, double mean = 0, double std = 1, Generator& generator = default_generator());
/// @}

/// Draws num_samples places from each row of probabilities, (n) or (rows, n), whose sums need not be 1
/// (torch.multinomial). Returns i64 places of shape (num_samples) or (rows, num_samples). Computes in f64, with scratch
/// of the size of the probabilities. A seed gives the same places on the CPU and on GPUs, except where a number falls
/// between the roundings of two cumulative sums or logarithms. Not differentiable.
/// Throws ShapeError if the rank is not 1 or 2, or n is 0.
/// Throws DTypeError if the probabilities are not floating-point.
/// Throws ValueError unless num_samples > 0, or if it exceeds n without replacement. A row with a negative or
/// non-finite element, or with fewer positive elements than it needs (1, or num_samples without replacement), is a
/// fault (core/device/fault.h).
Tensor multinomial(const Tensor& probabilities, std::int64_t num_samples, bool replacement = false,
                   Generator& generator = default_generator());

}  // namespace bytetape
