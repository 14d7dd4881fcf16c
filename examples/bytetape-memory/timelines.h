#pragma once
#include <bytetape/core/memory/log.h>

#include <cstddef>
#include <string>

namespace bytetape::examples {

/// Returns the levels by event, at most `width` columns wide: a line each for allocated bytes, roles with bytes and
/// reserved bytes, followed by its peak, and a line of step numbers.
std::string timelines(const memory::DeviceLog& device, std::size_t width);

}  // namespace bytetape::examples
