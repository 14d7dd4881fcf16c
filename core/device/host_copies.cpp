#include "bytetape/core/device/host_copies.h"

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/pinned.h"

namespace bytetape::detail {

using memory::EventKind;

Ref<Storage> HostCopies::allocate(std::size_t bytes, memory::PinnedMemory& pinned, memory::Role role) {
  if (!pool_) pool_ = std::make_unique<memory::Pool>(pinned.allocator());
  const memory::PoolScope scope(*pool_);
  return make_ref<Storage>(bytes, pinned, role);
}

void HostCopies::note(memory::Allocator& device, EventKind kind, std::size_t bytes) {
  device_ = &device;
  (kind == EventKind::to_host ? to_host_ : to_device_) += bytes;
}

void HostCopies::hold_unused() {
  if (pool_) pool_->hold_unused();
}

void HostCopies::note_replay() const {
  if (to_host_) device_->note_traffic(EventKind::to_host, to_host_);
  if (to_device_) device_->note_traffic(EventKind::to_device, to_device_);
}

}  // namespace bytetape::detail
