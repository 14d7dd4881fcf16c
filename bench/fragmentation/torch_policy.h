#pragma once
#include <list>
#include <set>
#include <utility>

#include "bytetape/core/memory/allocator/policy.h"

namespace bytetape::bench {

/// What PyTorch's CUDA caching allocator does with one stream, by its documented rules and default options: requests up
/// to 1 MiB come from segments of 2 MiB, below 10 MiB from segments of 20 MiB, larger ones from their own, rounded to
/// 2 MiB; the smallest free block that fits, of equal ones that of the lowest address; a block is split where 512 bytes
/// remain of a small one, more than 1 MiB of a large one; neighbours merge; segments go back where there is no more.
class TorchPolicy final : public memory::Policy {
 public:
  TorchPolicy(memory::Upstream& upstream, memory::SegmentObserver observer)
      : upstream_(upstream), observer_(std::move(observer)) {}
  ~TorchPolicy() override;

  memory::Block* allocate_cached(std::size_t size) override;
  memory::Block* allocate(std::size_t size, std::size_t budget) override;
  void deallocate(memory::Block* block) override;
  void release_cached() override;
  std::size_t largest_free() const override;
  std::size_t cached() const override;
  std::size_t unusable_for(std::size_t size) const override;
  bool holds_segments() const override { return !segments_.empty(); }
  void each_segment(const std::function<void(const memory::Block&)>& f) const override;

 private:
  struct BySize {
    bool operator()(const memory::Block* a, const memory::Block* b) const {
      return std::pair(a->size, a->data) < std::pair(b->size, b->data);
    }
  };
  using Pool = std::set<memory::Block*, BySize>;
  Pool& pool_of(const memory::Block* b) { return b->small ? small_ : large_; }
  memory::Block* hand_out(memory::Block* b, std::size_t size);
  memory::Block* new_segment(std::size_t size, std::size_t budget);
  void merge_with_next(memory::Block* b);

  memory::Upstream& upstream_;
  memory::SegmentObserver observer_;
  memory::SegmentNumbers numbers_;
  Pool small_, large_;
  std::set<memory::Block*> segments_;  // their first blocks
};

}  // namespace bytetape::bench
