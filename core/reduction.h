#pragma once
#include <cstdint>

namespace bytetape {

/// What becomes of the losses of a batch.
enum class Reduction : std::uint8_t { none, mean, sum };

}  // namespace bytetape
