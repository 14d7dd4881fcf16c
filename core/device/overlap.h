#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Whether two elements of x share memory, as in an expanded tensor.
bool overlaps_itself(const Tensor& x);
/// Whether an element of x shares memory with a different element of y. An identical view does not count.
/// Exact for views that the library makes. Strides that would take long to compare count as overlapping.
bool overlaps(const Tensor& x, const Tensor& y);

}  // namespace bytetape
