#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// True where two elements of x are one in memory (an expanded tensor).
bool overlaps_itself(const Tensor& x);
/// True where an element of x lies in memory on another element of y: the two may meet only as one and the same view.
/// Exact for views as the library makes them; strides that would take long to tell apart count as overlapping.
bool overlaps(const Tensor& x, const Tensor& y);

}  // namespace bytetape
