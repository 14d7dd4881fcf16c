#include "bytetape/core/storage.h"

#include <utility>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/device/stream.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/allocator/block.h"
#include "bytetape/core/memory/allocator/pinned.h"

namespace bytetape {
namespace {

constexpr int for_copies = Stream::for_copies().number();

}  // namespace

Storage::Storage(std::size_t bytes, Device device, memory::Role role) : bytes_(bytes), device_(device) {
  if (bytes == 0) return;
  allocator_ = &memory::allocator(device);
  block_ = allocator_->allocate(bytes, role);
  data_ = block_->data;
}

Storage::Storage(void* data, std::size_t bytes, Device device, std::function<void()> release)
    : data_(data), bytes_(bytes), device_(device), release_(std::move(release)) {}

Storage::Storage(std::size_t bytes, memory::PinnedMemory& memory, memory::Role role)
    : bytes_(bytes), device_(memory.is_meta() ? Device::meta() : Device::cpu()), pinned_(&memory) {
  if (bytes == 0) return;
  allocator_ = &memory.allocator();
  block_ = memory.allocate(bytes, role);
  data_ = block_->data;
}

Storage::~Storage() {
  if (pinned_ && block_)
    pinned_->deallocate(block_, read_until_.load(std::memory_order_relaxed));
  else if (block_)
    release();
  if (release_) release_();
}

void Storage::release() noexcept {
  if (used_on_.load(std::memory_order_relaxed) != bit(home_)) [[unlikely]]
    order_others(home_);
  allocator_->deallocate(block_);
}

void Storage::order_others(memory::StreamId behind) noexcept {
  const std::uint32_t users = used_on_.load(std::memory_order_relaxed) & ~device_reads;
  for (int stream = 0; stream < memory::stream_count; ++stream)
    if (stream != behind && users & bit(stream)) detail::order(device_, stream, behind);
  // Who has used what came back has waited for that; for a copy out nobody has.
  if (users & copied || !(users & bit(behind)))
    detail::wait_mark(device_, copied_at_.load(std::memory_order_relaxed), behind);
}

void Storage::order_read() {
  if (is_evicted()) restore_async();
  if (detail::core_ambient.step_watch) detail::note_use(*detail::core_ambient.step_watch, *this);
  const memory::StreamId here = memory::ambient.scope.stream;
  if (used_on_.load(std::memory_order_relaxed) & bit(here)) return;
  if (const std::uint64_t mark = copied_at_.load(std::memory_order_relaxed); mark && written_on_ == for_copies)
    detail::wait_mark(device_, mark, here);
  else
    detail::order(device_, written_on_, here);
  used_on_.fetch_or(bit(here), std::memory_order_relaxed);
}

void Storage::order_write() {
  if (is_evicted()) restore_async();
  elsewhere_ = {};
  if (detail::core_ambient.step_watch) detail::note_use(*detail::core_ambient.step_watch, *this);
  const memory::StreamId here = memory::ambient.scope.stream;
  wait_for_device_reads();
  order_others(here);
  used_on_.store(bit(here), std::memory_order_relaxed);
  written_on_ = here;
  copied_at_.store(0, std::memory_order_relaxed);
}

void Storage::end_device_reads() {
  pinned_->wait_for(read_until_.exchange(0));
  used_on_.fetch_and(~device_reads, std::memory_order_relaxed);
}

void Storage::set_read_until(std::uint64_t mark) {
  std::uint64_t before = read_until_.load(std::memory_order_relaxed);
  while (before < mark && !read_until_.compare_exchange_weak(before, mark)) {}
  used_on_.fetch_or(device_reads, std::memory_order_relaxed);
}

void Storage::set_role(memory::Role role) {
  if (is_evicted()) return elsewhere_->set_role(role);
  if (block_) allocator_->retag(block_, role);
}

void Storage::set_role(memory::Role role, memory::NameId module) {
  if (is_evicted())
    elsewhere_->set_role(role, module);
  else if (block_)
    allocator_->retag(block_, role, module);
  if (shadow_.storage) shadow_.storage->set_role(memory::Role::autocast_copy, module);
}

memory::Role Storage::role() const {
  if (is_evicted()) return elsewhere_->role();
  return block_ ? allocator_->role_of(block_) : memory::Role::temporary;
}

std::uint32_t Storage::savers() const {
  if (is_evicted()) return elsewhere_->savers();
  return block_ ? allocator_->saved_refs(block_) : 0;
}

memory::ScopeIds Storage::owner() const {
  if (is_evicted()) return elsewhere_->owner();
  return block_ ? allocator_->owner_of(block_) : memory::ScopeIds{};
}

void Storage::hold_saved(const void* saver) {
  if (is_evicted())
    elsewhere_->hold_saved(saver);
  else if (block_)
    allocator_->hold_saved(block_, saver);
  if (!watch_ && detail::core_ambient.saved_watch && detail::core_ambient.saved_watch->wants(*this))
    watch_ = Ref(detail::core_ambient.saved_watch);
  if (watch_) watch_->held(*this);
}

void Storage::drop_saved(const void* saver) { drop_saved(saver, use_count() == 1); }

void Storage::drop_saved(const void* saver, bool about_to_free) {
  if (is_evicted())
    elsewhere_->drop_saved(saver, about_to_free);
  else if (block_)
    allocator_->drop_saved(block_, about_to_free, saver);
  if (watch_ && savers() == 0) std::exchange(watch_, {})->dropped(*this);
}

}  // namespace bytetape
