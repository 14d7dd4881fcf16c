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

/// Requests up to this size, in bytes, share segments of their own.
inline constexpr std::size_t small_limit = std::size_t{1} << 20;

/// A function that is called for every segment taken (true) or returned (false).
using SegmentObserver = std::function<void(const Block& segment, bool acquired)>;

/// Numbers the segments of an allocator in the order in which they are taken. Numbers start at 0 again once all
/// segments were returned, so equal programs that start from nothing see equal numbers.
class SegmentNumbers {
 public:
  std::uint32_t take() { return ++held_, next_++; }
  void give_back() {
    if (--held_ == 0) next_ = 0;
  }

 private:
  std::uint32_t next_ = 0, held_ = 0;
};

/// Serves blocks from segments of an upstream. Not thread-safe: the Allocator holds its lock, and releases it only
/// during a call of the upstream. The policy's state is consistent before each such call.
class Policy {
 public:
  virtual ~Policy() = default;
  /// Returns a block of at least `size` bytes (a positive multiple of `rounding`) from the cache; null if none is large
  /// enough.
  virtual Block* allocate_cached(std::size_t size) = 0;
  /// The same, but may take at most `budget` bytes more from the upstream. Null if neither cache nor upstream can serve
  /// the request.
  virtual Block* allocate(std::size_t size, std::size_t budget) = 0;
  virtual void deallocate(Block* block) = 0;
  /// Returns unused segments to the upstream.
  virtual void release_cached() = 0;
  /// The largest request that the cache can serve, in bytes.
  virtual std::size_t largest_free() const = 0;
  /// The cached bytes.
  virtual std::size_t cached() const = 0;
  /// The cached bytes that cannot serve a request of `size` bytes, whatever the size of their pieces.
  virtual std::size_t unusable_for(std::size_t size) const = 0;
  /// Allocates a cached piece without splitting it; null if there is none.
  virtual Block* take_cached() { return nullptr; }
  /// Whether any segment is held.
  virtual bool holds_segments() const = 0;
  /// Whether it belongs to a Pool.
  virtual bool is_of_pool() const { return false; }
  /// Calls f(first block) for each segment. The order is the same in equal runs.
  virtual void each_segment(const std::function<void(const Block&)>& f) const = 0;
};

/// What happens to unused large segments if a request above 1 MiB finds no block that is large enough.
enum class Unused : std::uint8_t {
  merged,  ///< replaced by one segment of at least their total size, if that is at most twice their total and at most
           ///< 16 times the segment that the request would take
  kept,    ///< they stay, because a captured step writes to them
};

/// Best fit from cached segments, with splitting and merging.
///
/// Small requests (up to 1 MiB) share segments of 2 MiB. Larger ones share segments of 20 MiB. From 10 MiB on, each
/// request takes its own segment, rounded up to 2 MiB. These are the size classes of PyTorch's CUDA caching allocator,
/// which does not merge unused segments.
///
/// A loop with bounded memory comes to take no more segments. Each merge adds bytes or leaves fewer segments, and each
/// other new segment adds bytes. A limit that is never reached changes nothing.
///
/// A new segment shrinks to the remaining budget if necessary. If no budget is left and no segment is unused, a small
/// request is served from large segments.
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
  bool is_of_pool() const override { return unused_ == Unused::kept; }
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
  Block* spare_ = nullptr;     // recycled blocks, a list linked by `after`
  std::minstd_rand ranks_;
  std::shared_ptr<SegmentNumbers> numbers_;
  std::size_t segments_ = 0;
};

/// Gives every block its own segment, returned at once, so that sanitizers detect each use after free.
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
  Block* first_ = nullptr;  // first of a list linked by `smaller` and `larger`, which have no other use here
};

}  // namespace bytetape::memory
