#pragma once
#include <cstddef>

#include "bytetape/core/memory/allocator/block.h"

namespace bytetape::memory {

/// The order in which free blocks are taken: best fit first; equal sizes by place, never by address, so a run's layout
/// depends on the program alone.
inline bool comes_before(const Block& a, const Block& b) {
  if (a.size != b.size) return a.size < b.size;
  if (a.segment != b.segment) return a.segment < b.segment;
  return a.offset < b.offset;
}

/// Free blocks in that order, as a treap: a search tree whose random ranks fall from top to bottom, which keeps it
/// logarithmically deep in whatever order blocks come and go. The links are the blocks' own, so nothing is allocated.
class FreeTree {
 public:
  bool empty() const { return !root_; }
  void insert(Block& b);
  /// Takes out a block that is in it.
  void remove(Block& b);
  /// Takes out the first block of at least `size`; null where there is none.
  Block* take_best_fit(std::size_t size);

  /// The first block, and the last; null where there is none.
  Block* smallest() const;
  Block* largest() const;
  /// The first block after `x`, which may be in the tree or not; or null.
  Block* next(const Block& x) const;

 private:
  void remove_at(Block** at);

  Block* root_ = nullptr;
};

}  // namespace bytetape::memory
