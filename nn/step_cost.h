#pragma once
#include <functional>
#include <vector>

#include "bytetape/core/device/device.h"
#include "bytetape/core/memory/work_count.h"

namespace bytetape::nn {

/// Estimates the time of a predicted step's kernels from their work (memory::Prediction::work), in seconds.
/// The kernels of an op take the time of their floating-point operations or of their bytes, whichever is longer, on a
/// typical device of the type, and a fixed time for each launch. Only ratios of these times mean something.
/// Counts the rows for which `counts` is true. Default: all rows.
double step_cost(const std::vector<memory::WorkCount>& work, DeviceType type,
                 const std::function<bool(const memory::WorkCount&)>& counts = {});

}  // namespace bytetape::nn
