#include "bytetape/core/device/interop.h"

#include "bytetape/core/device/backend.h"

namespace bytetape {

CurrentDevice::CurrentDevice(Device device) : interop_(device.is_meta ? nullptr : backend(device).interop) {
  if (interop_) previous_ = interop_->set_current(device.index);
}

CurrentDevice::~CurrentDevice() {
  if (interop_) interop_->set_current(previous_);
}

}  // namespace bytetape
