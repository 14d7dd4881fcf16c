#pragma once
#include <cstddef>
#include <cstdint>

#include "bytetape/core/memory/ledger/scope_ids.h"

namespace bytetape::memory {

class Policy;

/// Block sizes are multiples of this.
inline constexpr std::size_t rounding = 512;

/// A piece of a segment: handed out, or cached for the next request.
struct Block {
  void* data = nullptr;
  std::size_t size = 0;       ///< bytes, a multiple of `rounding`
  std::size_t offset = 0;     ///< from the start of the segment
  std::uint32_t segment = 0;  ///< counted from 0, in the order of taking
  bool small = false;         ///< of a segment that small requests share
  bool in_use = false;
  Role role = Role::temporary;
  Phase phase = Phase::setup;
  std::size_t requested = 0;                    ///< bytes that were asked for
  NameId module = 0, op = 0;                    ///< who allocated it
  Block *before = nullptr, *after = nullptr;    ///< neighbours within the segment
  std::uint32_t savers = 0;                     ///< how many hold it for backward
  std::uint32_t rank = 0;                       ///< random, for good: its height in a FreeTree
  Block *smaller = nullptr, *larger = nullptr;  ///< below it in a FreeTree, while it is free
  Policy* policy = nullptr;                     ///< whose it is, for good
  const void* saver = nullptr;                  ///< one that holds it for backward, autograd's to read; or null
};

}  // namespace bytetape::memory
