#include "bytetape/core/memory/allocator/free_blocks.h"

#include <bit>

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
  for (std::size_t bin = next_filled(bin_of(size)); bin < bin_count; bin = next_filled(bin + 1))
    if (Block* b = bins_[bin].take_best_fit(size)) {  // null only in the request's own bin
      note_removal(bin);
      return b;
    }
  return nullptr;
}

void FreeBlocks::insert(Block* b) {
  const std::size_t bin = bin_of(b->size);
  bins_[bin].insert(*b);
  filled_[bin / 64] |= std::uint64_t{1} << bin % 64;
}

void FreeBlocks::remove(Block* b) {
  const std::size_t bin = bin_of(b->size);
  bins_[bin].remove(*b);
  note_removal(bin);
}

void FreeBlocks::note_removal(std::size_t bin) {
  if (bins_[bin].empty()) filled_[bin / 64] &= ~(std::uint64_t{1} << bin % 64);
}

std::size_t FreeBlocks::largest() const {
  for (std::size_t bin = bin_count; bin-- > 0;)
    if (const Block* b = bins_[bin].largest()) return b->size;
  return 0;
}

}  // namespace bytetape::memory
