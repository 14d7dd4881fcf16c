#pragma once
#include <span>

#include "bytetape/core/view.h"

namespace bytetape::cuda {

/// Implements CopyKernels::copy_all.
void copy_all(std::span<const ConstView> from, std::span<const View> to);
/// Implements CopyKernels::widen_all.
void widen_all(std::span<const ConstView> from, std::span<const View> to);

}  // namespace bytetape::cuda
