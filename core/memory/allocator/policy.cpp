#include "bytetape/core/memory/allocator/policy.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <unordered_set>
#include <utility>

#include "bytetape/core/integers.h"

namespace bytetape::memory {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr std::size_t small_segment = 2 * MiB;
constexpr std::size_t large_segment = 20 * MiB, own_segment_from = 10 * MiB, own_rounding = 2 * MiB;
constexpr std::size_t most_merged = 16;  // maximum size of a merged segment, as a multiple of the usual one

/// Whether the block is the whole segment.
bool is_segment(const Block& b) { return !b.before && !b.after; }

std::size_t bytes_in(const FreeBlocks& pool) {
  std::size_t bytes = 0;
  pool.for_each([&](const Block* b) { bytes += b->size; });
  return bytes;
}

std::size_t segment_size_for(std::size_t size) {
  if (size <= small_limit) return small_segment;
  if (size < own_segment_from) return large_segment;
  return round_up(size, own_rounding);
}

}  // namespace

CachingPolicy::CachingPolicy(Upstream& upstream, SegmentObserver observer, std::shared_ptr<SegmentNumbers> numbers,
                             Unused unused)
    : upstream_(upstream), observer_(std::move(observer)), unused_(unused), numbers_(std::move(numbers)) {}

CachingPolicy::~CachingPolicy() { release_unused({&small_, &large_}); }

Block* CachingPolicy::new_block() {
  if (Block* b = spare_) {
    spare_ = b->after;
    return b;
  }
  Block* b = &storage_.emplace_back();
  b->rank = static_cast<std::uint32_t>(ranks_());
  b->policy = this;
  return b;
}

void CachingPolicy::recycle(Block* b) {
  b->after = spare_;
  spare_ = b;
}

void CachingPolicy::make_free(Block* b) {
  b->in_use = false;
  pool_of(b).insert(b);
}

/// Takes a segment from the upstream. Returns null if the upstream does not have `bytes` more.
Block* CachingPolicy::new_segment(std::size_t bytes, bool small) {
  Block* b = new_block();
  void* data = upstream_.allocate(bytes);
  if (!data) {
    recycle(b);
    return nullptr;
  }
  b->data = data;
  b->size = bytes;
  b->offset = 0;
  b->segment = numbers_->take();
  ++segments_;
  b->small = small;
  b->before = b->after = nullptr;
  observer_(*b, true);
  return b;
}

void CachingPolicy::split(Block* b, std::size_t size) {
  Block* tail = new_block();
  tail->data = static_cast<char*>(b->data) + size;
  tail->size = b->size - size;
  tail->offset = b->offset + size;
  tail->segment = b->segment;
  tail->small = b->small;
  tail->before = b;
  tail->after = b->after;
  if (b->after) b->after->before = tail;
  b->after = tail;
  b->size = size;
  make_free(tail);
}

/// Replaces the unused large segments by one segment, if they have at least half its bytes; else returns null. The
/// limit only decides whether the bytes are available, so a limit that is never reached changes nothing.
Block* CachingPolicy::merge_unused(std::size_t size, std::size_t& budget) {
  std::size_t unused = 0;
  large_.for_each([&](const Block* b) { unused += is_segment(*b) ? b->size : 0; });
  const std::size_t own = segment_size_for(size), bytes = std::max(own, unused);
  if (unused < bytes / 2 || bytes / most_merged > own || bytes - unused > budget) return nullptr;
  release_unused({&large_});
  budget += std::min(unused, std::numeric_limits<std::size_t>::max() - budget);
  return new_segment(bytes, false);
}

/// Adds a segment for `size`. It has exactly `size` if the budget or the upstream does not have more.
Block* CachingPolicy::add_segment(std::size_t size, std::size_t budget) {
  const std::size_t bytes = std::min(segment_size_for(size), budget / rounding * rounding);
  if (size > bytes) return nullptr;
  Block* b = new_segment(bytes, size <= small_limit);
  return b || bytes == size ? b : new_segment(size, size <= small_limit);
}

bool CachingPolicy::holds_unused_segment() const {
  bool found = false;
  for (const FreeBlocks* pool : {&small_, &large_}) pool->for_each([&](const Block* b) { found |= is_segment(*b); });
  return found;
}

Block* CachingPolicy::take_small_from_large(std::size_t size) {
  // An unused segment is better returned to the upstream, because its bytes can then serve a segment of any size.
  if (size > small_limit || holds_unused_segment()) return nullptr;
  return large_.take_best_fit(size);
}

Block* CachingPolicy::hand_out(Block* b, std::size_t size) {
  b->in_use = true;
  const std::size_t rest = b->size - size;
  if (size <= small_limit ? rest >= rounding : rest > small_limit) split(b, size);
  return b;
}

Block* CachingPolicy::allocate_cached(std::size_t size) {
  Block* b = (size <= small_limit ? small_ : large_).take_best_fit(size);
  return b ? hand_out(b, size) : nullptr;
}

Block* CachingPolicy::allocate(std::size_t size, std::size_t budget) {
  if (Block* b = allocate_cached(size)) return b;
  Block* b = size > small_limit && unused_ == Unused::merged ? merge_unused(size, budget) : nullptr;
  if (!b) b = add_segment(size, budget);
  if (!b) b = take_small_from_large(size);
  return b ? hand_out(b, size) : nullptr;
}

void CachingPolicy::absorb_next(Block* b) {
  Block* next = b->after;
  b->size += next->size;
  b->after = next->after;
  if (b->after) b->after->before = b;
  recycle(next);
}

void CachingPolicy::deallocate(Block* b) {
  if (b->after && !b->after->in_use) {
    pool_of(b).remove(b->after);
    absorb_next(b);
  }
  if (b->before && !b->before->in_use) {
    b = b->before;
    pool_of(b).remove(b);
    absorb_next(b);
  }
  make_free(b);
}

void CachingPolicy::release_unused(std::initializer_list<FreeBlocks*> pools) {
  Block *unused = nullptr, **last = &unused;  // a list linked by `after`
  for (FreeBlocks* pool : pools)
    pool->for_each([&](Block* b) {
      if (!is_segment(*b)) return;
      pool->remove(b);
      *last = b;
      last = &b->after;
    });
  while (Block* b = unused) {
    unused = b->after;
    observer_(*b, false);  // before deallocate(), after which another thread may get the bytes
    upstream_.deallocate(b->data, b->size);
    numbers_->give_back();
    --segments_;
    recycle(b);
  }
}

void CachingPolicy::each_segment(const std::function<void(const Block&)>& f) const {
  std::unordered_set<const Block*> spare;
  for (const Block* b = spare_; b; b = b->after) spare.insert(b);
  for (const Block& b : storage_)
    if (!b.before && !spare.contains(&b)) f(b);
}

Block* CachingPolicy::take_cached() {
  Block* b = large_.take_best_fit(0);
  if (!b) b = small_.take_best_fit(0);
  if (b) b->in_use = true;
  return b;
}

std::size_t CachingPolicy::largest_free() const {
  return std::max(large_.largest(), std::min(small_.largest(), small_limit));
}

std::size_t CachingPolicy::cached() const { return bytes_in(small_) + bytes_in(large_); }

std::size_t CachingPolicy::unusable_for(std::size_t size) const { return size > small_limit ? bytes_in(small_) : 0; }

DirectPolicy::DirectPolicy(Upstream& upstream, SegmentObserver observer, std::shared_ptr<SegmentNumbers> numbers)
    : upstream_(upstream), observer_(std::move(observer)), numbers_(std::move(numbers)) {}

Block* DirectPolicy::allocate(std::size_t size, std::size_t budget) {
  if (size > budget) return nullptr;
  auto b = std::make_unique<Block>();
  b->data = upstream_.allocate(size);
  if (!b->data) return nullptr;
  b->size = size;
  b->segment = numbers_->take();
  b->in_use = true;
  b->policy = this;
  b->larger = first_;
  if (first_) first_->smaller = b.get();
  observer_(*b, true);
  return first_ = b.release();
}

// Calls the upstream last, because the mode may change meanwhile and destroy this policy once it has no blocks.
void DirectPolicy::deallocate(Block* b) {
  const std::unique_ptr<Block> gone(b);
  if (b->larger) b->larger->smaller = b->smaller;
  (b->smaller ? b->smaller->larger : first_) = b->larger;
  observer_(*b, false);
  numbers_->give_back();
  upstream_.deallocate(b->data, b->size);
}

void DirectPolicy::each_segment(const std::function<void(const Block&)>& f) const {
  for (const Block* b = first_; b; b = b->larger) f(*b);
}

}  // namespace bytetape::memory
