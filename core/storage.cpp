#include "bytetape/core/storage.h"

#include <utility>

#include "bytetape/core/backend.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/block.h"

namespace bytetape {

Storage::Storage(std::size_t bytes, Device device, memory::Role role) : bytes_(bytes), device_(device) {
  if (bytes == 0) return;
  allocator_ = &memory::allocator(device);
  block_ = allocator_->allocate(bytes, role);
  data_ = block_->data;
}

Storage::Storage(void* data, std::size_t bytes, Device device, std::function<void()> release)
    : data_(data), bytes_(bytes), device_(device), release_(std::move(release)) {}

Storage::~Storage() {
  if (block_) allocator_->deallocate(block_);
  if (release_) release_();
}

void Storage::set_role(memory::Role role) {
  if (block_) allocator_->retag(block_, role);
}

void Storage::set_role(memory::Role role, memory::NameId module) {
  if (block_) allocator_->retag(block_, role, module);
  if (shadow_.storage) shadow_.storage->set_role(memory::Role::lowered, module);
}

memory::Role Storage::role() const { return block_ ? allocator_->role_of(block_) : memory::Role::temporary; }

memory::NameId Storage::module() const { return block_ ? allocator_->owner_of(block_).module : 0; }

void Storage::hold_saved() {
  if (block_) allocator_->hold_saved(block_);
}

void Storage::drop_saved() {
  if (block_) allocator_->drop_saved(block_, use_count() == 1);
}

}  // namespace bytetape
