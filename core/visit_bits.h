#pragma once
#include <cstdint>

#include "bytetape/core/dtype.h"

namespace bytetape {

/// Calls f with a zero of the unsigned type of the size of t's elements. For kernels that only move bits: one instance
/// per size.
template <class F>
void visit_bits(DType t, F&& f) {
  switch (size_of(t)) {
    case 8:
      return f(std::uint64_t{});
    case 4:
      return f(std::uint32_t{});
    case 2:
      return f(std::uint16_t{});
    default:
      return f(std::uint8_t{});
  }
}

}  // namespace bytetape
