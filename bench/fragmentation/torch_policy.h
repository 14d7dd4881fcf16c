#pragma once
#include <list>
#include <set>
#include <utility>

#include "bytetape/core/memory/allocator/policy.h"

namespace bytetape::bench {

/// PyTorch's CUDA caching allocator for one stream, by its documented rules and default options:
/// - Requests up to 1 MiB come from segments of 2 MiB, requests below 10 MiB from segments of 20 MiB. Larger ones have
///   their own segment, rounded up to 2 MiB.
/// - A request takes the smallest free block that fits, with the lowest address among equals.
/// - A block is split if at least 512 bytes of a small one or more than 1 MiB of a large one remain. Neighbours merge.
/// - Unused segments are returned if the system has no more memory.
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
  std::set<memory::Block*> segments_;  // first blocks of the segments
};

}  // namespace bytetape::bench
