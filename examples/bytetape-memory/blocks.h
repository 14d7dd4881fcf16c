#pragma once
#include <bytetape/core/memory/log.h>

#include <cstddef>
#include <string>

namespace bytetape::examples {

/// Returns a table of the largest blocks at the peak: their tensors, roles, modules, ops and origin. "" if there are
/// none.
std::string largest_blocks(const memory::Log& log, const memory::DeviceLog& device, std::size_t count);

}  // namespace bytetape::examples
