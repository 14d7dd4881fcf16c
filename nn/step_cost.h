#pragma once
#include <functional>
#include <vector>

#include "bytetape/core/device/device.h"
#include "bytetape/core/memory/work_count.h"

namespace bytetape::nn {

/// Estimates the time of the kernels of predicted steps, in seconds, from their work (memory::Prediction::work).
/// Each row takes the longer of the times of its FLOP and of its bytes, at typical rates of the type, and a fixed time
/// for each launch. Compare results only with each other, for the same type.
/// Counts the rows for which `counts` is true. Default: all rows.
double step_cost(const std::vector<memory::WorkCount>& work, DeviceType type,
                 const std::function<bool(const memory::WorkCount&)>& counts = {});

}  // namespace bytetape::nn
