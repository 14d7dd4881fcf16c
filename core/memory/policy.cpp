#include "bytetape/core/memory/policy.h"

#include <algorithm>
#include <utility>

namespace bytetape::memory {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr std::size_t small_limit = 1 * MiB, small_segment = 2 * MiB;
constexpr std::size_t large_segment = 20 * MiB, own_segment_from = 10 * MiB, own_rounding = 2 * MiB;

std::size_t segment_size_for(std::size_t size) {
  if (size <= small_limit) return small_segment;
  if (size < own_segment_from) return large_segment;
  return (size + own_rounding - 1) / own_rounding * own_rounding;
}

}  // namespace

CachingPolicy::CachingPolicy(Upstream& upstream, SegmentObserver observer)
    : upstream_(upstream), observer_(std::move(observer)) {}

CachingPolicy::~CachingPolicy() { release_cached(); }

FreeSet& CachingPolicy::pool_of(std::size_t segment_size) { return segment_size == small_segment ? small_ : large_; }

Block* CachingPolicy::new_block() {
  if (!spare_.empty()) {
    Block* b = spare_.back();
    spare_.pop_back();
    return b;
  }
  Block* b = &storage_.emplace_back();
  FreeSet scratch;  // the only way to make a node is to insert one
  b->node = scratch.extract(scratch.insert(b).first);
  if (spare_.capacity() < storage_.size()) spare_.reserve(2 * storage_.size());  // so that recycling never allocates
  return b;
}

void CachingPolicy::recycle(Block* b) {
  FreeSet::node_type node = std::move(b->node);
  *b = Block{};
  b->node = std::move(node);
  spare_.push_back(b);
}

void CachingPolicy::make_free(Block* b) {
  b->in_use = false;
  pool_of(segment_size_[b->segment]).insert(std::move(b->node));
}

void CachingPolicy::take(Block* b) {
  FreeSet& pool = pool_of(segment_size_[b->segment]);
  b->node = pool.extract(pool.find(b));
}

Block* CachingPolicy::new_segment(std::size_t size, std::size_t budget) {
  const std::size_t bytes = segment_size_for(size);
  if (bytes > budget) return nullptr;
  void* data = upstream_.allocate(bytes);
  if (!data) return nullptr;
  Block* b = new_block();
  b->data = data;
  b->size = bytes;
  if (spare_segments_.empty()) {
    b->segment = static_cast<std::uint32_t>(segment_size_.size());
    segment_size_.push_back(bytes);
    spare_segments_.reserve(segment_size_.capacity());
  } else {
    b->segment = spare_segments_.back();
    spare_segments_.pop_back();
    segment_size_[b->segment] = bytes;
  }
  observer_(*b, true);
  return b;
}

Block* CachingPolicy::allocate(std::size_t size, std::size_t budget) {
  FreeSet& pool = pool_of(segment_size_for(size));
  Block wanted;
  wanted.size = size;
  Block* b;
  if (auto it = pool.lower_bound(&wanted); it != pool.end()) {
    b = *it;
    b->node = pool.extract(it);
  } else if (!(b = new_segment(size, budget))) {
    return nullptr;
  }
  const std::size_t rest = b->size - size;
  const bool split = segment_size_[b->segment] == small_segment ? rest >= rounding : rest > small_limit;
  if (split) {
    Block* tail = new_block();
    tail->data = static_cast<char*>(b->data) + size;
    tail->size = rest;
    tail->segment = b->segment;
    tail->offset = b->offset + size;
    tail->before = b;
    tail->after = b->after;
    if (b->after) b->after->before = tail;
    b->after = tail;
    b->size = size;
    make_free(tail);
  }
  b->in_use = true;
  return b;
}

Block* CachingPolicy::merge(Block* left, Block* right) {
  left->size += right->size;
  left->after = right->after;
  if (right->after) right->after->before = left;
  recycle(right);
  return left;
}

void CachingPolicy::deallocate(Block* b) {
  if (b->after && !b->after->in_use) {
    take(b->after);
    merge(b, b->after);
  }
  if (b->before && !b->before->in_use) {
    take(b->before);
    b = merge(b->before, b);
  }
  make_free(b);
}

void CachingPolicy::release_cached() {
  for (FreeSet* pool : {&small_, &large_})
    for (auto it = pool->begin(); it != pool->end();) {
      Block* b = *it;
      if (b->before || b->after) {
        ++it;
        continue;
      }
      b->node = pool->extract(it++);
      upstream_.deallocate(b->data, b->size);
      observer_(*b, false);
      spare_segments_.push_back(b->segment);
      recycle(b);
    }
}

std::size_t CachingPolicy::largest_free() const {
  std::size_t n = 0;
  for (const FreeSet* pool : {&small_, &large_})
    if (!pool->empty()) n = std::max(n, (*pool->rbegin())->size);
  return n;
}

DirectPolicy::DirectPolicy(Upstream& upstream, SegmentObserver observer)
    : upstream_(upstream), observer_(std::move(observer)) {}

Block* DirectPolicy::allocate(std::size_t size, std::size_t budget) {
  if (size > budget) return nullptr;
  void* data = upstream_.allocate(size);
  if (!data) return nullptr;
  auto* b = new Block;
  b->data = data;
  b->size = size;
  b->segment = next_segment_++;
  b->in_use = true;
  observer_(*b, true);
  return b;
}

void DirectPolicy::deallocate(Block* b) {
  observer_(*b, false);
  upstream_.deallocate(b->data, b->size);
  delete b;
}

}  // namespace bytetape::memory
