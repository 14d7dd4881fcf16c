#pragma once
#include <cstddef>
#include <optional>

namespace bytetape::cuda {

/// Returns the bytes of a device that the driver attributes to this process, including its context. None if the driver
/// does not say (no NVML, or a container that hides processes). Takes a millisecond, and longer at the first call.
std::optional<std::size_t> process_bytes(int index);

}  // namespace bytetape::cuda
