#pragma once
#include <cstdint>

#include "bytetape/data/mnist.h"

namespace bytetape::data {

/// `n` drawn digits that stand in for MNIST where it cannot be had: pen strokes with a random slant, size, place,
/// wobble and thickness, anti-aliased, with some noise. Image i depends on the seed and i alone, to the bit on every
/// machine; labels are uniform. Named "generated digits". Throws ValueError where n < 0.
Mnist generated_digits(std::int64_t n, std::uint64_t seed);

}  // namespace bytetape::data
