#include "bench/fragmentation/torch_policy.h"

#include <algorithm>
#include <memory>

namespace bytetape::bench {
namespace {

using memory::Block;

constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr std::size_t small_size = MiB, small_buffer = 2 * MiB, large_buffer = 20 * MiB, min_large = 10 * MiB,
                      round_large = 2 * MiB;

std::size_t segment_size(std::size_t size) {
  if (size <= small_size) return small_buffer;
  if (size < min_large) return large_buffer;
  return (size + round_large - 1) / round_large * round_large;
}

}  // namespace

TorchPolicy::~TorchPolicy() { release_cached(); }

Block* TorchPolicy::allocate_cached(std::size_t size) {
  Block key;
  key.size = size;
  Pool& pool = size <= small_size ? small_ : large_;
  const auto fits = pool.lower_bound(&key);
  if (fits == pool.end()) return nullptr;
  Block* b = *fits;
  pool.erase(fits);
  return hand_out(b, size);
}

Block* TorchPolicy::allocate(std::size_t size, std::size_t budget) {
  if (Block* b = allocate_cached(size)) return b;
  Block* b = new_segment(size, budget);
  return b ? hand_out(b, size) : nullptr;
}

Block* TorchPolicy::new_segment(std::size_t size, std::size_t budget) {
  const std::size_t bytes = segment_size(size);
  void* data = bytes <= budget ? upstream_.allocate(bytes) : nullptr;
  if (!data) return nullptr;
  auto* b = new Block;
  b->data = data;
  b->size = bytes;
  b->segment = numbers_.take();
  b->small = size <= small_size;
  b->policy = this;
  segments_.insert(b);
  observer_(*b, true);
  return b;
}

Block* TorchPolicy::hand_out(Block* b, std::size_t size) {
  b->in_use = true;
  const std::size_t rest = b->size - size;
  if (b->small ? rest < memory::rounding : rest <= small_size) return b;
  auto* tail = new Block(*b);
  tail->data = static_cast<char*>(b->data) + size;
  tail->size = rest;
  tail->offset = b->offset + size;
  tail->in_use = false;
  tail->before = b;
  if (tail->after) tail->after->before = tail;
  b->after = tail;
  b->size = size;
  pool_of(tail).insert(tail);
  return b;
}

void TorchPolicy::merge_with_next(Block* b) {
  const std::unique_ptr<Block> next(b->after);
  b->size += next->size;
  b->after = next->after;
  if (b->after) b->after->before = b;
}

void TorchPolicy::deallocate(Block* b) {
  b->in_use = false;
  if (b->after && !b->after->in_use) {
    pool_of(b).erase(b->after);
    merge_with_next(b);
  }
  if (b->before && !b->before->in_use) {
    b = b->before;
    pool_of(b).erase(b);
    merge_with_next(b);
  }
  pool_of(b).insert(b);
}

void TorchPolicy::release_cached() {
  std::erase_if(segments_, [&](Block* b) {
    if (b->in_use || b->after) return false;
    const std::unique_ptr<Block> gone(b);
    pool_of(b).erase(b);
    observer_(*b, false);
    upstream_.deallocate(b->data, b->size);
    numbers_.give_back();
    return true;
  });
}

std::size_t TorchPolicy::largest_free() const {
  const std::size_t small = small_.empty() ? 0 : std::min((*small_.rbegin())->size, small_size);
  return std::max(small, large_.empty() ? 0 : (*large_.rbegin())->size);
}

std::size_t TorchPolicy::cached() const {
  std::size_t bytes = 0;
  for (const Pool* pool : {&small_, &large_})
    for (const Block* b : *pool) bytes += b->size;
  return bytes;
}

std::size_t TorchPolicy::unusable_for(std::size_t size) const {
  std::size_t bytes = 0;
  for (const Block* b : size <= small_size ? large_ : small_) bytes += b->size;
  return bytes;
}

void TorchPolicy::each_segment(const std::function<void(const Block&)>& f) const {
  for (const Block* b : segments_) f(*b);
}

}  // namespace bytetape::bench
