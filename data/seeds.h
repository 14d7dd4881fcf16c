#pragma once
#include <cstdint>

#include "bytetape/core/random.h"

namespace bytetape::data {

// What loaders draw. The upper half of a seed's Philox stream is theirs, so that a Generator of the same seed shares no
// bits with them; an epoch has 2^40 counters for each purpose.

/// Of the order of an epoch.
constexpr PhiloxState shuffle_state(std::uint64_t seed, std::uint64_t epoch) {
  return {seed, std::uint64_t{1} << 63 | epoch << 40};
}
/// Of what becomes of its images.
constexpr PhiloxState augmentation_state(std::uint64_t seed, std::uint64_t epoch) {
  return {seed, std::uint64_t{3} << 62 | epoch << 40};
}

}  // namespace bytetape::data
