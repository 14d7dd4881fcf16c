#pragma once
#include <cstddef>
#include <optional>

namespace bytetape::memory {

/// Bytes of this process that are in physical memory now; nothing where the system does not tell (it does on Linux).
std::optional<std::size_t> resident_bytes();
/// Those of them that lie in `bytes` from `data` on, which starts a page.
std::optional<std::size_t> resident_bytes(const void* data, std::size_t bytes);

}  // namespace bytetape::memory
