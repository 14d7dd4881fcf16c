#pragma once
#include <cstdint>

namespace bytetape {

/// The reduction of a batch's losses.
enum class Reduction : std::uint8_t { none, mean, sum };
constexpr const char* name_of(Reduction r) {
  return r == Reduction::none ? "none" : r == Reduction::mean ? "mean" : "sum";
}

}  // namespace bytetape
