#include "bytetape/core/memory/allocator.h"

#include <utility>

#include "bytetape/core/error.h"

namespace bytetape::memory {

Allocator::Allocator(Device device, std::unique_ptr<Upstream> upstream, Mode mode)
    : device_(device), upstream_(std::move(upstream)), policy_(make_policy(mode)), limit_(upstream_->capacity()) {}

std::unique_ptr<Policy> Allocator::make_policy(Mode mode) {
  auto observe = [this](const Block& segment, bool acquired) { ledger_.on_segment(segment, acquired); };
  if (mode == Mode::caching) return std::make_unique<CachingPolicy>(*upstream_, observe);
  return std::make_unique<DirectPolicy>(*upstream_, observe);
}

Block* Allocator::try_allocate(std::size_t size) {
  const std::size_t reserved = ledger_.statistics().reserved.current;
  return policy_->allocate(size, reserved < limit_ ? limit_ - reserved : 0);
}

Block* Allocator::allocate(std::size_t bytes, Role role) {
  std::lock_guard lock(mutex_);
  constexpr std::size_t most = std::size_t{1} << 62;
  if (bytes > most) out_of_memory(bytes);
  const std::size_t size = (bytes + rounding - 1) / rounding * rounding;
  Block* b = try_allocate(size);
  if (!b) {
    policy_->release_cached();
    b = try_allocate(size);
    if (!b) out_of_memory(bytes);
  }
  b->requested = bytes;
  b->role = role;
  b->module = current_scope.module;
  b->op = current_scope.op;
  b->phase = current_scope.phase;
  ledger_.on_alloc(*b);
  return b;
}

void Allocator::deallocate(Block* block) noexcept {
  std::lock_guard lock(mutex_);
  ledger_.on_free(*block);
  policy_->deallocate(block);
}

void Allocator::retag(Block* block, Role role) {
  std::lock_guard lock(mutex_);
  if (block->role != role) ledger_.on_retag(*block, role, block->module);
}

void Allocator::retag(Block* block, Role role, NameId module) {
  std::lock_guard lock(mutex_);
  if (block->role != role || block->module != module) ledger_.on_retag(*block, role, module);
}

void Allocator::retag_from(Block* block, Role from, Role to) {
  std::lock_guard lock(mutex_);
  if (block->role == from) ledger_.on_retag(*block, to, block->module);
}

Scope Allocator::owner_of(const Block* block) const {
  std::lock_guard lock(mutex_);
  return {block->module, block->op, block->phase};
}

Role Allocator::role_of(const Block* block) const {
  std::lock_guard lock(mutex_);
  return block->role;
}

void Allocator::set_limit(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
  if (ledger_.statistics().reserved.current > limit_) policy_->release_cached();
}

void Allocator::empty_cache() {
  std::lock_guard lock(mutex_);
  policy_->release_cached();
}

void Allocator::set_mode(Mode mode) {
  std::lock_guard lock(mutex_);
  if (const std::size_t held = ledger_.statistics().allocated.current)
    fail<ValueError>("the allocator's mode can only change while nothing is allocated; ", held, " bytes are");
  policy_->release_cached();
  policy_ = make_policy(mode);
}

void Allocator::begin_step(std::uint32_t step) {
  std::lock_guard lock(mutex_);
  ledger_.begin_step(step);
}

void Allocator::end_step() {
  std::lock_guard lock(mutex_);
  ledger_.end_step();
}

void Allocator::reset_peaks() {
  std::lock_guard lock(mutex_);
  ledger_.reset_peaks();
}

void Allocator::reset_log(std::size_t capacity) {
  std::lock_guard lock(mutex_);
  ledger_.reset_log(capacity);
}

Statistics Allocator::statistics() const {
  std::lock_guard lock(mutex_);
  return ledger_.statistics();
}

Snapshot Allocator::snapshot() const {
  std::lock_guard lock(mutex_);
  return {device_,
          ledger_.statistics(),
          limit_,
          upstream_->capacity(),
          ledger_.by_module(),
          ledger_.by_op(),
          ledger_.by_module_at_peak(),
          ledger_.by_op_at_peak(),
          ledger_.events(),
          ledger_.steps(),
          ledger_.dropped()};
}

void Allocator::out_of_memory(std::size_t bytes) {
  ledger_.on_out_of_memory(bytes);
  const std::size_t reserved = ledger_.statistics().reserved.current;
  throw OutOfMemory(Shortage{device_, bytes, limit_, limit_ > reserved ? limit_ - reserved : 0, policy_->largest_free(),
                             ledger_.statistics(), ledger_.by_module(), ledger_.by_op()});
}

}  // namespace bytetape::memory
