#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bytetape/core/memory/recording/device_timer.h"
#include "bytetape/cuda/timer/launch_scopes.h"

namespace bytetape::cuda {

/// Returns the work in a buffer of CUPTI's records that belongs to a timed step.
std::vector<memory::TimedWork> work_in(std::uint8_t* buffer, std::size_t bytes, const LaunchScopes& scopes);

}  // namespace bytetape::cuda
