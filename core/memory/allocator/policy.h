#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <random>

#include "bytetape/core/memory/allocator/block.h"
#include "bytetape/core/memory/allocator/free_blocks.h"
#include "bytetape/core/memory/allocator/upstream.h"

namespace bytetape::memory {

/// Requests up to this share segments of their own.
inline constexpr std::size_t small_limit = std::size_t{1} << 20;

/// Told of every segment taken (true) or returned (false).
using SegmentObserver = std::function<void(const Block& segment, bool acquired)>;

/// Numbers the segments of an allocator in the order of taking; from 0 again once all have gone back, so that equal
/// programs that start from nothing see equal numbers.
class SegmentNumbers {
 public:
  std::uint32_t take() { return ++held_, next_++; }
  void give_back() {
    if (--held_ == 0) next_ = 0;
  }

 private:
  std::uint32_t next_ = 0, held_ = 0;
};

/// Turns segments of an upstream into blocks. Not locked; its Allocator holds the lock, but for the length of an
/// upstream's call: before each, what is held here is whole.
class Policy {
 public:
  virtual ~Policy() = default;
  /// A block of at least `size` bytes (a positive multiple of `rounding`) from the cache; nullptr where that has none.
  virtual Block* allocate_cached(std::size_t size) = 0;
  /// The same, taking at most `budget` bytes more from the upstream; nullptr where neither cache nor upstream can serve
  /// it.
  virtual Block* allocate(std::size_t size, std::size_t budget) = 0;
  virtual void deallocate(Block* block) = 0;
  /// Returns unused segments to the upstream.
  virtual void release_cached() = 0;
  /// The largest request that the cache could serve now without the upstream.
  virtual std::size_t largest_free() const = 0;
  /// Bytes of the cache.
  virtual std::size_t cached() const = 0;
  /// Bytes of the cache that no request of `size` bytes is served from, however large their pieces.
  virtual std::size_t unusable_for(std::size_t size) const = 0;
  /// Hands out a piece of the cache as it is; nullptr where there is none.
  virtual Block* take_cached() { return nullptr; }
  /// Whether any segment is held.
  virtual bool holds_segments() const = 0;
  /// f(first block) for each segment, in no order that equal runs could not repeat.
  virtual void each_segment(const std::function<void(const Block&)>& f) const = 0;
};

/// What becomes of large segments that lie unused where a request above 1 MiB finds no block that is large enough.
enum class Unused : std::uint8_t {
  merged,  ///< where they have half the bytes of the segment that it would take, up to 16 times as many, they go back
           ///< before it is taken, and it has all of theirs
  kept,    ///< they stay: what a captured step has recorded writes to them
};

/// Best fit over cached segments, splitting and merging. Small requests (up to 1 MiB) share 2 MiB segments; larger ones
/// share 20 MiB segments; from 10 MiB each takes its own, rounded to 2 MiB. (The classes of PyTorch's CUDA caching
/// allocator, which keeps what lies unused.) Where segments become one, either bytes are added or fewer segments are
/// left, and all else that takes one adds bytes: a loop that runs short of nothing, and whose bytes are bounded, comes
/// to take none. A limit that is never reached changes nothing of what is taken. Where the budget is tighter than a new
/// segment, it is what the budget leaves; where it leaves none, and no segment is unused, a small request takes its
/// bytes from the large ones.
class CachingPolicy final : public Policy {
 public:
  CachingPolicy(Upstream& upstream, SegmentObserver observer,
                std::shared_ptr<SegmentNumbers> numbers = std::make_shared<SegmentNumbers>(),
                Unused unused = Unused::merged);
  ~CachingPolicy() override;
  Block* allocate_cached(std::size_t size) override;
  Block* allocate(std::size_t size, std::size_t budget) override;
  void deallocate(Block* block) override;
  void release_cached() override { release_unused({&small_, &large_}); }
  std::size_t largest_free() const override;
  std::size_t cached() const override;
  std::size_t unusable_for(std::size_t size) const override;
  Block* take_cached() override;
  bool holds_segments() const override { return segments_ != 0; }
  void each_segment(const std::function<void(const Block&)>& f) const override;

 private:
  Block* new_block();
  void recycle(Block* b);
  Block* hand_out(Block* b, std::size_t size);
  void make_free(Block* b);
  void absorb_next(Block* b);
  void split(Block* b, std::size_t size);
  Block* new_segment(std::size_t bytes, bool small);
  Block* merge_unused(std::size_t size, std::size_t& budget);
  Block* add_segment(std::size_t size, std::size_t budget);
  Block* take_small_from_large(std::size_t size);
  bool holds_unused_segment() const;
  void release_unused(std::initializer_list<FreeBlocks*> pools);
  FreeBlocks& pool_of(const Block* b) { return b->small ? small_ : large_; }

  Upstream& upstream_;
  SegmentObserver observer_;
  const Unused unused_;
  FreeBlocks small_, large_;
  std::deque<Block> storage_;  // blocks never move
  Block* spare_ = nullptr;     // a list by `after`
  std::minstd_rand ranks_;
  std::shared_ptr<SegmentNumbers> numbers_;
  std::size_t segments_ = 0;
};

/// Every block its own segment, returned at once: lets a sanitizer see each use after free.
class DirectPolicy final : public Policy {
 public:
  DirectPolicy(Upstream& upstream, SegmentObserver observer,
               std::shared_ptr<SegmentNumbers> numbers = std::make_shared<SegmentNumbers>());
  Block* allocate_cached(std::size_t) override { return nullptr; }
  Block* allocate(std::size_t size, std::size_t budget) override;
  void deallocate(Block* block) override;
  void release_cached() override {}
  std::size_t largest_free() const override { return 0; }
  std::size_t cached() const override { return 0; }
  std::size_t unusable_for(std::size_t) const override { return 0; }
  bool holds_segments() const override { return first_ != nullptr; }
  void each_segment(const std::function<void(const Block&)>& f) const override;

 private:
  Upstream& upstream_;
  SegmentObserver observer_;
  std::shared_ptr<SegmentNumbers> numbers_;
  Block* first_ = nullptr;  // of a list by `smaller` and `larger`, which no tree needs here
};

}  // namespace bytetape::memory
