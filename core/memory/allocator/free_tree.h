#pragma once
#include <cstddef>

#include "bytetape/core/memory/allocator/block.h"

namespace bytetape::memory {

/// The order of free blocks: by size, then by place. Addresses never count, so the layout of a run depends on the
/// program alone.
inline bool comes_before(const Block& a, const Block& b) {
  if (a.size != b.size) return a.size < b.size;
  if (a.segment != b.segment) return a.segment < b.segment;
  return a.offset < b.offset;
}

/// Free blocks in the order of comes_before(), as a treap: a binary search tree that is also a heap of random ranks.
/// Its expected depth is logarithmic for any order of operations. The links are in the blocks, so nothing is allocated.
class FreeTree {
 public:
  bool empty() const { return !root_; }
  void insert(Block& b);
  /// Removes a block, which must be in the tree.
  void remove(Block& b);
  /// Removes and returns the first block of at least `size` bytes; null if there is none.
  Block* take_best_fit(std::size_t size);

  /// The first and the last block; null if the tree is empty.
  Block* smallest() const;
  Block* largest() const;
  /// The first block after `x` in the order, or null. `x` need not be in the tree.
  Block* next(const Block& x) const;

 private:
  void remove_at(Block** at);

  Block* root_ = nullptr;
};

}  // namespace bytetape::memory
