#include "bytetape/core/memory/allocator/free_tree.h"

namespace bytetape::memory {

void FreeTree::insert(Block& b) {
  Block** at = &root_;
  while (*at && (*at)->rank > b.rank) at = comes_before(**at, b) ? &(*at)->larger : &(*at)->smaller;
  // Splits the subtree at this place into the blocks before b and the blocks after b, which become b's children.
  Block* rest = *at;
  *at = &b;
  Block **before = &b.smaller, **after = &b.larger;
  while (rest)
    if (comes_before(*rest, b)) {
      *before = rest;
      before = &rest->larger;
      rest = rest->larger;
    } else {
      *after = rest;
      after = &rest->smaller;
      rest = rest->smaller;
    }
  *before = *after = nullptr;
}

// Merges the block's children in its place, so that the higher rank is above.
void FreeTree::remove_at(Block** at) {
  Block *before = (*at)->smaller, *after = (*at)->larger;
  while (before && after)
    if (before->rank > after->rank) {
      *at = before;
      at = &before->larger;
      before = before->larger;
    } else {
      *at = after;
      at = &after->smaller;
      after = after->smaller;
    }
  *at = before ? before : after;
}

void FreeTree::remove(Block& b) {
  Block** at = &root_;
  while (*at != &b) at = comes_before(**at, b) ? &(*at)->larger : &(*at)->smaller;
  remove_at(at);
}

Block* FreeTree::take_best_fit(std::size_t size) {
  Block** best = nullptr;
  for (Block** at = &root_; *at;)
    if ((*at)->size < size) {
      at = &(*at)->larger;
    } else {
      best = at;
      at = &(*at)->smaller;
    }
  if (!best) return nullptr;
  Block* b = *best;
  remove_at(best);
  return b;
}

Block* FreeTree::smallest() const {
  Block* b = root_;
  while (b && b->smaller) b = b->smaller;
  return b;
}

Block* FreeTree::largest() const {
  Block* b = root_;
  while (b && b->larger) b = b->larger;
  return b;
}

Block* FreeTree::next(const Block& x) const {
  Block* found = nullptr;
  for (Block* b = root_; b;)
    if (comes_before(x, *b)) {
      found = b;
      b = b->smaller;
    } else {
      b = b->larger;
    }
  return found;
}

}  // namespace bytetape::memory
