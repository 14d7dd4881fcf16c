#pragma once
#include <cstdint>

#include "bytetape/data/mnist.h"

namespace bytetape::data {

/// Draws `n` digits, as a replacement for MNIST if that is not available.
/// The images are anti-aliased pen strokes with random slant, size, position, wobble and thickness, and some noise.
/// Image i depends only on `seed` and i, and has the same bits on every machine. Labels are uniform. The name is
/// "generated digits".
/// Throws ValueError if n < 0.
Mnist generated_digits(std::int64_t n, std::uint64_t seed);

}  // namespace bytetape::data
