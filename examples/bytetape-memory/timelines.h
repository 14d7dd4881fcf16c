#pragma once
#include <bytetape/core/memory/log.h>

#include <cstddef>
#include <string>

namespace bytetape::examples {

/// A line for what is allocated, for each role that ever holds anything and for what is reserved, as high as each was
/// when, event by event, with their peaks behind; and one of the steps. At most `width` columns wide.
std::string timelines(const memory::DeviceLog& device, std::size_t width);

}  // namespace bytetape::examples
