#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "bytetape/core/memory/allocator/block.h"
#include "bytetape/core/memory/allocator/free_tree.h"

namespace bytetape::memory {

/// Free blocks, best fit first. Bins of similar sizes (eight to a doubling), a tree in each, and a bitmap of the bins
/// that hold any: finding, taking and returning cost the same however many other sizes are around.
class FreeBlocks {
 public:
  /// Removes and returns the smallest block of at least `size`, the first by (segment, offset) of equals; or null.
  Block* take_best_fit(std::size_t size);
  void insert(Block* b);
  void remove(Block* b);
  /// Bytes of the largest block; 0 where there is none.
  std::size_t largest() const;

  /// Visits every block, smallest first. `visit` may remove the block that it is given.
  template <class F>
  void for_each(F visit) const {
    for (const FreeTree& bin : bins_)
      for (Block *b = bin.smallest(), *next; b; b = next) {
        next = bin.next(*b);
        visit(b);
      }
  }

 private:
  static constexpr std::size_t exact = 16, per_doubling = 8, bin_count = exact + 51 * per_doubling;
  static std::size_t bin_of(std::size_t size);
  std::size_t next_filled(std::size_t bin) const;
  void note_removal(std::size_t bin);

  std::array<FreeTree, bin_count> bins_;
  std::array<std::uint64_t, (bin_count + 63) / 64> filled_{};
};

}  // namespace bytetape::memory
