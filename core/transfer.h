#pragma once
#include "bytetape/core/view.h"

namespace bytetape {

/// Copies x into y, of one shape: within a device by its kernel, between devices as bytes (Backend::transfer). The
/// dtype becomes y's. What is no dense piece of memory, or of another dtype, is staged on its own side, and the smaller
/// of the two dtypes travels. Waits only for what the host is to read. To or from a meta device takes the staging and
/// moves nothing.
void copy_across(const ConstView& x, const View& y);

}  // namespace bytetape
