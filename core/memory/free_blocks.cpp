#include "bytetape/core/memory/free_blocks.h"

#include <bit>
#include <utility>

namespace bytetape::memory {

std::size_t FreeBlocks::bin_of(std::size_t size) {
  const std::size_t units = size / rounding;
  if (units < exact) return units;
  const auto doubling = static_cast<std::size_t>(std::bit_width(units)) - 1;  // >= 4
  const std::size_t eighth = (units >> (doubling - 3)) & (per_doubling - 1);
  return exact + (doubling - 4) * per_doubling + eighth;
}

std::size_t FreeBlocks::next_filled(std::size_t bin) const {
  std::size_t word = bin / 64;
  if (word >= filled_.size()) return bin_count;
  std::uint64_t bits = filled_[word] & (~std::uint64_t{0} << bin % 64);
  while (bits == 0) {
    if (++word == filled_.size()) return bin_count;
    bits = filled_[word];
  }
  return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
}

Block* FreeBlocks::take_best_fit(std::size_t size) {
  const std::size_t first = bin_of(size);
  for (std::size_t bin = next_filled(first); bin < bin_count; bin = next_filled(bin + 1)) {
    Block* b = *bins_[bin].begin();
    if (b->size < size) {  // only in the request's own bin: a later one holds nothing smaller
      Block wanted;
      wanted.size = size;
      const auto it = bins_[bin].lower_bound(&wanted);
      if (it == bins_[bin].end()) continue;
      b = *it;
    }
    remove(b);
    return b;
  }
  return nullptr;
}

void FreeBlocks::insert(Block* b) {
  const std::size_t bin = bin_of(b->size);
  filled_[bin / 64] |= std::uint64_t{1} << bin % 64;
  // What was taken last was the first of its bin, and often comes back first: the hint saves the search.
  b->place = bins_[bin].insert(bins_[bin].begin(), std::move(b->node));
}

void FreeBlocks::remove(Block* b) {
  const std::size_t bin = bin_of(b->size);
  b->node = bins_[bin].extract(b->place);
  if (bins_[bin].empty()) filled_[bin / 64] &= ~(std::uint64_t{1} << bin % 64);
}

std::size_t FreeBlocks::largest() const {
  for (std::size_t bin = bin_count; bin-- > 0;)
    if (!bins_[bin].empty()) return (*bins_[bin].rbegin())->size;
  return 0;
}

}  // namespace bytetape::memory
