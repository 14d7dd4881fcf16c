#pragma once
#include <cstdint>

#include "bytetape/core/view.h"

namespace bytetape::cpu {

/// Throws a fault for the first element of index, in row-major order, that is not in [0, bound).
void check_indices(const ConstView& index, std::int64_t bound);

/// Returns the i64 number at p.
inline const std::int64_t& number_at(const char* p) { return *reinterpret_cast<const std::int64_t*>(p); }

/// Returns the byte step from slice to slice of x.
inline std::int64_t slice_step(const ConstView& x, int dim) {
  return x.strides[dim] * static_cast<std::int64_t>(size_of(x.dtype));
}

}  // namespace bytetape::cpu
