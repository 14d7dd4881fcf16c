#include "bytetape/core/storage.h"

#include <utility>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/external.h"
#include "bytetape/core/device/shadow.h"
#include "bytetape/core/error.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/block.h"
#include "bytetape/core/memory/allocator/pinned.h"

namespace bytetape {

Storage::Storage(std::size_t bytes, Device device, memory::Role role) : residency_(nullptr, bytes, device) {
  if (bytes == 0) return;
  memory::Allocator& allocator = memory::allocator(device);
  memory::Block* const block = allocator.allocate(bytes, role);
  residency_.hold({&allocator, block}, block->data);
}

Storage::Storage(std::size_t bytes, memory::PinnedMemory& memory, memory::Role role)
    : residency_(nullptr, bytes, memory.is_meta() ? Device::meta() : Device::cpu(), &memory) {
  if (bytes == 0) return;
  memory::Block* const block = memory.allocate(bytes, role);
  residency_.hold({&memory.allocator(), block}, block->data);
}

Storage::Storage(void* data, std::size_t bytes, Device device, std::unique_ptr<ExternalMemory> external)
    : residency_(data, bytes, device), external_(std::move(external)) {
  if (is_read_only()) order_.disallow_writes();
  exposures_ = 1;
}

Storage::~Storage() {
  if (const auto held = residency_.held(); held && pinned()) {
    pinned()->deallocate(held.block, order_.read_until());
  } else if (held) {
    order_.order_free(device());
    held.allocator->deallocate(held.block);
  } else if (external_) {
    external_->release(order_.streams(), order_.home());
  }
}

bool Storage::is_read_only() const { return external_ && external_->is_read_only(); }

void Storage::check_writable() const {
  check<ValueError>(!is_read_only(),
                    "this tensor's memory belongs to another library and is read-only; clone() it first");
}

void Storage::expose() {
  exposures_.fetch_add(1, std::memory_order_relaxed);
  detail::discard_shadow(*this);
}

void Storage::drop() {
  residency_.drop(order_);
  shadow_ = {};
}

void Storage::refill() {
  if (!is_dropped()) return;
  const auto keep = [this, version = version_, writer = writer_] {
    version_ = version;
    writer_ = writer;
  };
  try {
    residency_.refill(*this, order_);
  } catch (...) {
    keep();
    throw;
  }
  keep();
}

void Storage::restore_for_use() {
  if (is_dropped()) return refill();
  if (!is_evicted()) return;
  restore();
  if (watch_) watch_->restored(*this);
}

void Storage::order_read() {
  restore_for_use();
  if (detail::core_ambient.step_watch) detail::note_use(*detail::core_ambient.step_watch, *this);
  order_.order_read(device());
}

void Storage::order_write() {
  check_writable();
  restore_for_use();
  drop_copy();
  if (detail::core_ambient.step_watch) detail::note_use(*detail::core_ambient.step_watch, *this);
  wait_for_device_reads();
  order_.order_write(device());
}

void Storage::set_role(memory::Role role) {
  if (const auto b = residency_.booked()) b.allocator->retag(b.block, role);
}

void Storage::set_role(memory::Role role, memory::NameId module) {
  if (const auto b = residency_.booked()) b.allocator->retag(b.block, role, module);
  if (shadow_.storage) shadow_.storage->set_role(memory::Role::autocast_copy, module);
}

memory::Role Storage::role() const {
  const auto b = residency_.booked();
  return b ? b.allocator->role_of(b.block) : memory::Role::temporary;
}

void Storage::hold_saved(const void* saver) {
  if (residency_.has_source()) return;
  if (const auto b = residency_.booked()) b.allocator->hold_saved(b.block, saver);
  if (!watch_ && detail::core_ambient.saved_watch && detail::core_ambient.saved_watch->wants(*this))
    watch_ = Ref(detail::core_ambient.saved_watch);
  if (watch_) watch_->held(*this);
}

bool Storage::is_saved() const {
  const auto b = residency_.booked();
  return b && b.allocator->saved_refs(b.block) > 0;
}

void Storage::drop_saved(const void* saver) {
  if (residency_.has_source()) return;
  const auto b = residency_.booked();
  if (b) b.allocator->drop_saved(b.block, use_count() == 1, saver);
  if (watch_ && (!b || b.allocator->saved_refs(b.block) == 0)) std::exchange(watch_, {})->dropped(*this);
}

}  // namespace bytetape
