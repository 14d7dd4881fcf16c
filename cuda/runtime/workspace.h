#pragma once
#include <cstddef>
#include <optional>

#include "bytetape/core/device/device.h"

namespace bytetape::cuda {

/// What set_workspace_cap() says of a device, or of the one that it stands in for; nothing where it was not called.
/// Then what a product or a convolution usually gets counts, which is what committed ranks were measured with.
using WorkspaceCap = std::optional<std::size_t>;
WorkspaceCap workspace_cap(Device device);

}  // namespace bytetape::cuda
