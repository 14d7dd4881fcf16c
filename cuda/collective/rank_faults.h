#pragma once
#include "bytetape/core/view.h"

namespace bytetape::cuda {

/// As in CollectiveKernels.
void note_fault(const View& y, int rank);
void leave_fault(const ConstView& x);

}  // namespace bytetape::cuda
