#pragma once
#include <bytetape/core/memory/log.h>

#include <cstddef>
#include <string>

namespace bytetape::examples {

/// The largest blocks that were held when most was: their tensors, roles, modules, ops and birth. A table, or "".
std::string largest_blocks(const memory::Log& log, const memory::DeviceLog& device, std::size_t count);

}  // namespace bytetape::examples
