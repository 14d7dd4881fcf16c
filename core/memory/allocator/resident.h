#pragma once
#include <cstddef>
#include <optional>

namespace bytetape::memory {

/// Returns the bytes of this process in physical memory. None if the system does not say; Linux does.
std::optional<std::size_t> resident_bytes();
/// The same for the range of `bytes` bytes from `data`, which must be page-aligned.
std::optional<std::size_t> resident_bytes(const void* data, std::size_t bytes);

}  // namespace bytetape::memory
