#pragma once
#include <cstddef>
#include <optional>

#include "bytetape/core/device/device.h"

namespace bytetape::cuda {

/// The cap from set_workspace_cap() for a device, or for the device that a meta device stands for. None, the default,
/// allows the usual workspace of a product or convolution. The committed ranks were measured with that.
using WorkspaceCap = std::optional<std::size_t>;
WorkspaceCap workspace_cap(Device device);

}  // namespace bytetape::cuda
