#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Values and their places along a dim (i64).
struct ValuesAndIndices {
  Tensor values, indices;
};

}  // namespace bytetape
