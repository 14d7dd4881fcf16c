#pragma once
#include "bytetape/core/view.h"

namespace bytetape::cuda {

/// As in CollectiveKernels.
void note_fault(const View& y);
void leave_fault(const ConstView& x);

}  // namespace bytetape::cuda
