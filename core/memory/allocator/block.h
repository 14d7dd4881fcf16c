#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "bytetape/core/integers.h"
#include "bytetape/core/memory/ledger/scope_ids.h"

namespace bytetape::memory {

class Policy;

/// Block sizes are multiples of this.
inline constexpr std::size_t rounding = 512;
/// The most bytes of a request. Rounding them up cannot overflow.
inline constexpr std::size_t most_requested = std::size_t{1} << 62;
/// Returns the bytes of a block for a request, `rounding` at least.
constexpr std::size_t rounded(std::size_t requested) {
  return round_up(std::clamp(requested, std::size_t{1}, most_requested), rounding);
}

/// A piece of a segment: allocated, or cached for a later request.
struct Block {
  void* data = nullptr;
  std::size_t size = 0;       ///< bytes, a multiple of `rounding`
  std::size_t offset = 0;     ///< from the start of the segment
  std::uint32_t segment = 0;  ///< segment number, from 0 in the order in which segments were taken
  bool small = false;         ///< true in a segment that small requests share
  bool in_use = false;
  Role role = Role::temporary;
  Phase phase = Phase::setup;
  std::size_t requested = 0;                    ///< bytes as requested
  NameId module = 0, op = 0;                    ///< who allocated it
  Block *before = nullptr, *after = nullptr;    ///< neighbours within the segment
  std::uint32_t savers = 0;                     ///< number of references for backward
  std::uint32_t rank = 0;                       ///< random and constant: its priority in a FreeTree
  Block *smaller = nullptr, *larger = nullptr;  ///< children in a FreeTree, while the block is free
  Policy* policy = nullptr;                     ///< its owner; never changes
  const void* saver = nullptr;                  ///< one of its savers, read by autograd; or null
};

}  // namespace bytetape::memory
