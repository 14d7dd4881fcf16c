#pragma once
#include <cstddef>
#include <optional>

namespace bytetape::cuda {

/// Bytes of a device that the driver books on this process, its context among them; nothing where it does not tell (a
/// container that hides processes, no NVML). Takes a millisecond, at the first call some more.
std::optional<std::size_t> process_bytes(int index);

}  // namespace bytetape::cuda
