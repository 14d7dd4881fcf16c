#pragma once
#include <cstdint>

namespace bytetape {

/// The reduction of a batch's losses.
enum class Reduction : std::uint8_t { none, mean, sum };

}  // namespace bytetape
