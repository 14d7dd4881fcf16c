#include "bytetape/core/memory/allocator/pinned.h"

#include <utility>

#include "bytetape/core/memory/allocator/out_of_memory.h"

namespace bytetape::memory {

PinnedMemory::PinnedMemory(Device device, std::unique_ptr<Upstream> upstream, Wait wait, Allocator::Mode mode,
                           bool is_listed)
    : device_(device),
      wait_(wait),
      allocator_(device.is_meta ? Device::meta() : Device::cpu(), std::move(upstream), mode,
                 "pinned:" + to_string(device), is_listed) {}

Block* PinnedMemory::allocate(std::size_t bytes, Role role) {
  try {
    return allocator_.allocate(bytes, role);
  } catch (const OutOfMemory&) { settle(); }
  return allocator_.allocate(bytes, role);
}

void PinnedMemory::deallocate(Block* block, std::uint64_t mark) noexcept {
  take_in(mark ? keep({block, mark}) : Kept{block, 0});
}

void PinnedMemory::settle() noexcept {
  for (std::size_t i = 0; i < kept_back; ++i) take_in(keep({}));
}

/// Keeps `next` and returns the oldest kept block.
PinnedMemory::Kept PinnedMemory::keep(Kept next) noexcept {
  const std::lock_guard lock(mutex_);
  std::swap(kept_[oldest_], next);
  oldest_ = (oldest_ + 1) % kept_back;
  return next;
}

void PinnedMemory::take_in(const Kept& kept) noexcept {
  if (!kept.block) return;
  if (kept.mark) wait_for(kept.mark);
  allocator_.deallocate(kept.block);
}

void PinnedMemory::wait_for(std::uint64_t mark) const noexcept {
  if (wait_) wait_(device_.index, mark);
}

}  // namespace bytetape::memory
