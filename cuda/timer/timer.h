#pragma once

namespace bytetape::memory {
class DeviceTimer;
}

/// Times kernels and copies with CUPTI, the profiling library of the CUDA toolkit.
namespace bytetape::cuda {

/// As in Backend.
memory::DeviceTimer& device_timer();

/// Whether a recording times some of the steps.
bool is_timing_steps();
/// Whether work that this thread launches now is timed.
bool times_launches();

}  // namespace bytetape::cuda
