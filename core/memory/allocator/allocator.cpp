#include "bytetape/core/memory/allocator.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/allocator/out_of_memory.h"
#include "bytetape/core/memory/allocator/packing.h"
#include "bytetape/core/memory/allocator/policy.h"
#include "bytetape/core/memory/allocators.h"
#include "bytetape/core/memory/recording/recording_hooks.h"

namespace bytetape::memory {
namespace {
/// Calls f(first block) for each segment of an allocator's policies and of its open and closed pools.
template <class Pools, class F>
void each_segment(const Policies& policies, const Pools& pools, const Pools& closed_pools, const F& f) {
  const auto walk = [&](const Policies& all) { all.each([&](const Policy& p) { p.each_segment(f); }); };
  walk(policies);
  for (const Pools* list : {&pools, &closed_pools})
    for (const auto& pool : *list) walk(*pool);
}

/// Reports a step of a listed allocator, or of a prediction's. Another one's name may be that of a recorded device.
void report_step(const Allocator& a, bool is_listed, std::uint32_t number, bool begins) {
  if (is_recording.load(std::memory_order_relaxed)) [[unlikely]]
    if (is_listed || ambient.meta_allocators) note_step(a, number, begins);
}

}  // namespace

Allocator::Allocator(Device device, std::unique_ptr<Upstream> upstream, Mode mode, std::string name, bool is_listed)
    : device_(device),
      name_(name.empty() ? to_string(device) : std::move(name)),
      is_listed_(is_listed),
      streams_(device.type == DeviceType::cpu ? 0 : stream_count - 1),
      mode_(mode),
      upstream_(std::move(upstream), mutex_),
      numbers_(std::make_shared<SegmentNumbers>()),
      limit_(upstream_.capacity()) {
  policies_.of(0) = make_policy(false);  // here, so that a first allocation has no bookkeeping of its own
  if (is_listed_) enlist(*this);
}

Allocator::~Allocator() {
  empty_cache();
  if (is_listed_) delist(*this);
}

std::unique_ptr<Policy> Allocator::make_policy(bool in_pool) {
  auto observe = [this](const Block& segment, bool acquired) { ledger_.on_segment(segment, acquired); };
  if (in_pool || mode_ == Mode::caching)
    return std::make_unique<CachingPolicy>(upstream_, observe, numbers_, in_pool ? Unused::kept : Unused::merged);
  return std::make_unique<DirectPolicy>(upstream_, observe, numbers_);
}

// Makes the policy of this thread's stream and pool. A pool caches in every mode, because replays use its blocks again.
void Allocator::make_policy_here() {
  const bool in_pool = ambient.pool.owner == this;
  auto& policy = (in_pool ? *ambient.pool.policies : policies_).of(ambient.scope.stream & streams_);
  if (!policy) policy = make_policy(in_pool);
}

Block* Allocator::allocate(std::size_t bytes, Role role) {
  const std::size_t size = rounded(bytes);
  {
    const std::lock_guard lock(mutex_);
    Policy* const policy = policy_here();
    if (Block* b = policy ? policy->allocate_cached(size) : nullptr) [[likely]] {
      book(*b, bytes, role);
      return b;
    }
  }
  return allocate_anew(bytes, size, role);
}

// Allocates from a new segment if necessary. After waiting for another thread's segment, its rest may serve the
// request.
Block* Allocator::allocate_anew(std::size_t bytes, std::size_t size, Role role) {
  std::unique_lock growing(growing_);
  std::unique_lock lock(mutex_);
  make_policy_here();
  Block* b = try_allocate(bytes, size);
  if (!b) {
    policies_.release_cached();
    b = try_allocate(bytes, size);
  }
  if (!b) {
    upstream_.check_failure();
    ledger_.on_out_of_memory(bytes);
    Shortage s = shortage(bytes);
    const std::vector<Block> held = copy_blocks();
    lock.unlock();
    growing.unlock();
    complete(s, held);
    throw OutOfMemory(std::move(s));
  }
  book(*b, bytes, role);
  return b;
}

Block* Allocator::try_allocate(std::size_t bytes, std::size_t size) {
  if (bytes > most_requested) return nullptr;
  const std::size_t reserved = ledger_.reserved();
  return policy_here()->allocate(size, reserved < limit_ ? limit_ - reserved : 0);
}

void Allocator::book(Block& b, std::size_t bytes, Role role) {
  b.requested = bytes;
  b.role = role;
  b.module = ambient.scope.module;
  b.op = ambient.scope.op;
  b.phase = ambient.scope.phase;
  b.savers = 0;
  ledger_.on_alloc(b);
}

void Allocator::deallocate(Block* block) noexcept {
  const Policy* const policy = block->policy;
  {
    const std::lock_guard lock(mutex_);
    ledger_.on_free(*block);
    block->policy->deallocate(block);
    if (closed_pools_.empty()) [[likely]]
      return;
  }
  const std::lock_guard growing(growing_);
  const std::lock_guard lock(mutex_);
  for (const auto& closed : closed_pools_)
    if (closed->has(policy)) return return_unused(*closed);
}

Policies& Allocator::open_pool() {
  std::lock_guard lock(mutex_);
  return *pools_.emplace_back(std::make_unique<Policies>());
}

void Allocator::close_pool(Policies& pool) {
  const std::lock_guard growing(growing_);
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(pools_.begin(), pools_.end(), [&](const auto& p) { return p.get() == &pool; });
  closed_pools_.push_back(std::move(*at));
  pools_.erase(at);
  return_unused(pool);
}

void Allocator::return_unused(const Policies& pool) {
  pool.release_cached();
  if (!pool.hold_segments()) std::erase_if(closed_pools_, [&](const auto& p) { return p.get() == &pool; });
}

std::vector<Block*> Allocator::take_unused(const Policies& pool) {
  std::lock_guard lock(mutex_);
  std::vector<Block*> taken;
  pool.each([&](Policy& policy) {
    while (Block* b = policy.take_cached()) {
      book(*b, b->size, Role::workspace);
      taken.push_back(b);
    }
  });
  return taken;
}

void Allocator::rebook(Block& b, Role role, NameId module) {
  if (role == Role::temporary && b.savers) role = Role::saved;
  if (b.role != role || b.module != module) ledger_.on_retag(b, role, module);
}

void Allocator::retag(Block* block, Role role) {
  std::lock_guard lock(mutex_);
  rebook(*block, role, block->module);
}

void Allocator::retag(Block* block, Role role, NameId module) {
  std::lock_guard lock(mutex_);
  rebook(*block, role, module);
}

void Allocator::hold_saved(Block* block, const void* saver) {
  std::lock_guard lock(mutex_);
  block->saver = saver;
  ledger_.on_hold(*block, true);
  if (block->savers++ == 0) rebook(*block, block->role, block->module);
}

void Allocator::drop_saved(Block* block, bool about_to_free, const void* saver) {
  std::lock_guard lock(mutex_);
  if (block->saver == saver) block->saver = nullptr;
  ledger_.on_hold(*block, false);
  --block->savers;
  if (block->role == Role::saved && !about_to_free)  // rebook() keeps the role while there are savers
    rebook(*block, Role::temporary, block->module);
}

std::uint32_t Allocator::saved_refs(const Block* block) const {
  const std::lock_guard lock(mutex_);
  return block->savers;
}

void Allocator::note_passed(const Block& block, EventKind kind, std::uint64_t before) {
  const std::lock_guard lock(mutex_);
  ledger_.on_passed(block, kind, before);
}

void Allocator::transfer_saved_refs(Block* from, Allocator& its, Block* to) {
  const void* saver = nullptr;
  std::uint32_t savers = 0;
  {
    const std::lock_guard lock(mutex_);
    for (; from->savers; --from->savers, ++savers) ledger_.on_hold(*from, false);
    saver = std::exchange(from->saver, nullptr);
  }
  for (; savers; --savers) its.hold_saved(to, saver);
}

void Allocator::record_to(Track* track) {
  const std::lock_guard growing(growing_);
  const std::lock_guard lock(mutex_);
  ledger_.set_track(track);
  if (track) each_segment(policies_, pools_, closed_pools_, [&](const Block& first) { ledger_.on_found(first); });
}

std::size_t Allocator::limit() const {
  std::lock_guard lock(mutex_);
  return limit_;
}

void Allocator::note_traffic(EventKind kind, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  ledger_.on_traffic(kind, bytes);
}

ScopeIds Allocator::owner_of(const Block* block) const {
  std::lock_guard lock(mutex_);
  return {block->module, block->op, block->phase};
}

Role Allocator::role_of(const Block* block) const {
  std::lock_guard lock(mutex_);
  return block->role;
}

void Allocator::set_limit(std::size_t bytes) {
  {
    const std::lock_guard growing(growing_);
    const std::lock_guard lock(mutex_);
    limit_ = bytes;
    if (ledger_.reserved() > limit_) policies_.release_cached();
  }
  note_limit(*this);
}

void Allocator::empty_cache() {
  const std::lock_guard growing(growing_);
  const std::lock_guard lock(mutex_);
  policies_.release_cached();
}

void Allocator::set_mode(Mode mode) {
  const std::lock_guard growing(growing_);
  const std::lock_guard lock(mutex_);
  if (const std::size_t held = ledger_.allocated())
    fail<ValueError>("the allocator's mode can only change while nothing is allocated; ", held, " bytes are");
  mode_ = mode;
  const auto old = std::exchange(policies_, {});  // destroyed without the lock, because no other thread can use them
}

// ---- steps

// A step has the time that starting and stopping its device times takes, so that their cost can be seen.
std::uint32_t Allocator::begin_step(std::uint32_t step) {
  if (is_recording.load(std::memory_order_relaxed)) [[unlikely]] {  // the new step ends the thread's open one
    const std::uint32_t open = [&] {
      const std::lock_guard lock(mutex_);
      return ledger_.open_step();
    }();
    if (open) report_step(*this, is_listed_, open, false);
  }
  const std::uint32_t number = [&] {
    const std::lock_guard lock(mutex_);
    return ledger_.begin_step(step).number;
  }();
  report_step(*this, is_listed_, number, true);
  return number;
}

OpenStep Allocator::begin_sole_step(std::uint32_t step) {
  std::unique_lock lock(mutex_);
  if (const std::uint32_t open = ledger_.open_step()) {
    lock.unlock();
    fail<ValueError>("step ", open, " is still open on ", name_, ": a thread's steps on one device do not nest");
  }
  const OpenStep begun = ledger_.begin_step(step);
  lock.unlock();
  report_step(*this, is_listed_, begun.number, true);
  return begun;
}

void Allocator::end_step() {
  const std::uint32_t open = [&] {
    const std::lock_guard lock(mutex_);
    return ledger_.open_step();
  }();
  report_step(*this, is_listed_, open, false);
  const std::lock_guard lock(mutex_);
  ledger_.end_step();
}

void Allocator::end_step(const OpenStep& step) {
  report_step(*this, is_listed_, step.number, false);
  const std::lock_guard lock(mutex_);
  ledger_.end_step(step);
}

void Allocator::reset_peaks() {
  external_.reset_peak();
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

std::optional<Outside> Allocator::outside() const {
  std::optional<Outside> outside = upstream_.outside();
  if (!outside || device_.type == DeviceType::cpu) return outside;  // external pages of the host may not be resident
  const std::size_t ours = outside->bytes - std::min(outside->bytes, outside->others.value_or(0));
  outside->bytes -= std::min(external().bytes, ours);
  return outside;
}

Snapshot Allocator::snapshot() const {
  const std::optional<Outside> outside = this->outside();
  const External external = this->external();
  std::lock_guard lock(mutex_);
  return {device_,
          name_,
          ledger_.statistics(),
          limit_,
          upstream_.capacity(),
          ledger_.by_module(),
          ledger_.by_op(),
          ledger_.by_module_at_peak(),
          ledger_.by_op_at_peak(),
          ledger_.most_by_module(),
          ledger_.most_by_op(),
          ledger_.events(),
          ledger_.steps(),
          ledger_.dropped(),
          ledger_.dropped_steps(),
          outside,
          external};
}

std::vector<Block> Allocator::blocks() const {
  const std::lock_guard growing(growing_);  // waits for segments that are being taken
  const std::lock_guard lock(mutex_);
  return copy_blocks();
}

std::vector<Block> Allocator::copy_blocks() const {
  std::vector<Block> blocks;
  each_segment(policies_, pools_, closed_pools_, [&](const Block& first) {
    for (const Block* b = &first; b; b = b->after)
      if (b->in_use) blocks.push_back(*b);
  });
  return blocks;
}

Shortage Allocator::shortage(std::size_t bytes) {
  const std::size_t reserved = ledger_.reserved();
  const Policy* const here = policy_here();
  std::size_t elsewhere = 0;
  for (const auto* pools : {&pools_, &closed_pools_})
    for (const auto& pool : *pools) elsewhere += pool->cached_but_for(here);
  elsewhere += policies_.cached_but_for(here);
  return {device_,
          name_,
          bytes,
          limit_,
          limit_ > reserved ? limit_ - reserved : 0,
          here->largest_free(),
          here->unusable_for(bytes),
          elsewhere,
          ledger_.statistics(),
          upstream_.capacity(),
          ledger_.open_step(),
          ambient.scope.phase};
}

// Fills the fields that take time, without the locks.
void Allocator::complete(Shortage& s, const std::vector<Block>& held) const {
  if (device_.type != DeviceType::cpu) s.outside = outside();
  s.external = external();
  s.holders = holdings_of(held);
  std::vector<std::size_t> sizes;
  for (const Block& b : held) sizes.push_back(b.requested);
  s.max_fit_if_compacted = max_fit_if_compacted(std::move(sizes), s.statistics.reserved.current + s.available());
}

}  // namespace bytetape::memory
