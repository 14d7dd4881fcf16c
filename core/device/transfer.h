#pragma once
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Copies x into y, of the same shape, and converts to y's dtype. Within a device it runs the copy kernel.
/// Between devices bytes are copied (Backend::transfer). A side that is strided, or has the wider dtype, is converted
/// on its own device first. The host waits only for data that it will read. A meta device allocates the staging memory
/// and copies nothing.
///
/// Copies from the host to a device with pinned memory are staged there, piece by piece, so that the host does not
/// wait. Data that is pinned already, as `of_x` says, is copied directly.
void copy_across(const ConstView& x, const View& y, Storage* of_x = nullptr);
void copy_across(const Tensor& x, const Tensor& y);

}  // namespace bytetape
