#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "bytetape/core/memory/allocator/block.h"
#include "bytetape/core/memory/allocator/free_tree.h"

namespace bytetape::memory {

/// Free blocks, found by best fit. Blocks of similar sizes share a bin (eight bins to a doubling). Each bin is a tree,
/// and a bitmap marks the bins that are not empty. The cost of an operation does not depend on how many other sizes
/// exist.
class FreeBlocks {
 public:
  /// Removes and returns the smallest block of at least `size` bytes. Ties go to the first by (segment, offset). Null
  /// if there is none.
  Block* take_best_fit(std::size_t size);
  void insert(Block* b);
  void remove(Block* b);
  /// The size of the largest block, in bytes; 0 if there is none.
  std::size_t largest() const;

  /// Calls visit(block) for every block, the smallest first. `visit` may remove the block that it gets.
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
