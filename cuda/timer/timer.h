#pragma once

namespace bytetape::memory {
class DeviceTimer;
}

/// Times kernels and copies with CUPTI, the profiling library of the CUDA toolkit.
namespace bytetape::cuda {

/// As in Backend.
memory::DeviceTimer& device_timer();

/// Whether work that is launched now is timed.
bool times_launches();

}  // namespace bytetape::cuda
