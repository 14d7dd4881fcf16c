#pragma once
#include <cstdint>

#include "bytetape/core/random.h"

namespace bytetape::data {

// The random numbers of loaders. They use the upper half of a seed's Philox stream, so that they share no bits with a
// Generator of the same seed. Each epoch has 2^40 counters for each purpose.

/// Returns the generator state for the order of an epoch.
constexpr PhiloxState shuffle_state(std::uint64_t seed, std::uint64_t epoch) {
  return {seed, std::uint64_t{1} << 63 | epoch << 40};
}
/// Returns the generator state for the augmentation of an epoch.
constexpr PhiloxState augmentation_state(std::uint64_t seed, std::uint64_t epoch) {
  return {seed, std::uint64_t{3} << 62 | epoch << 40};
}

}  // namespace bytetape::data
