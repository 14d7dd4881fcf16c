#pragma once
#include <cstddef>
#include <string>

namespace bytetape::memory {

/// "512 B", "9.50 KiB", "1.21 GiB": three significant digits, binary units.
std::string format_bytes(std::size_t bytes);

}  // namespace bytetape::memory
