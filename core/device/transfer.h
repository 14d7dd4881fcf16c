#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Copies x into y, of one shape: within a device by its kernel, between devices as bytes (Backend::transfer). The
/// dtype becomes y's. What is no dense piece of memory, or of another dtype, is staged on its own side, and the smaller
/// of the two dtypes travels. Waits only for what the host is to read. To or from a meta device takes the staging and
/// moves nothing.
///
/// What goes from the host to a device that has pinned memory goes by way of that, piece by piece, so that the host
/// need not wait; what lies there already (as x's storage says, where it is given) goes straight from where it is.
void copy_across(const ConstView& x, const View& y, Storage* of_x = nullptr);
void copy_across(const Tensor& x, const Tensor& y);

}  // namespace bytetape
