#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Values, and their i64 indices along a dim.
struct ValuesAndIndices {
  Tensor values, indices;
};

}  // namespace bytetape
