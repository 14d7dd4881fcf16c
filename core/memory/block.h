#pragma once
#include <cstddef>
#include <cstdint>
#include <set>

#include "bytetape/core/memory/scope.h"

namespace bytetape::memory {

struct Block;

/// Best fit first; equal sizes by place, never by address, so a run's layout depends on the program alone.
struct BySizeThenPlace {
  bool operator()(const Block* a, const Block* b) const;
};
using FreeSet = std::set<Block*, BySizeThenPlace>;

/// A piece of a segment: handed out, or cached for the next request.
struct Block {
  void* data = nullptr;
  std::size_t size = 0;       ///< bytes, a multiple of the rounding
  std::size_t offset = 0;     ///< from the start of the segment
  std::uint32_t segment = 0;  ///< counted from 0, in the order of taking
  bool small = false;         ///< of a segment that small requests share
  bool in_use = false;
  Role role = Role::temporary;
  Phase phase = Phase::setup;
  std::size_t requested = 0;                  ///< bytes that were asked for
  NameId module = 0, op = 0;                  ///< who allocated it
  Block *before = nullptr, *after = nullptr;  ///< neighbours within the segment
  std::uint32_t savers = 0;                   ///< how many hold it for backward
  FreeSet::iterator place;                    ///< among the free, while it is free
  FreeSet::node_type node;                    ///< while it is not: so that freeing allocates nothing
};

inline bool BySizeThenPlace::operator()(const Block* a, const Block* b) const {
  if (a->size != b->size) return a->size < b->size;
  if (a->segment != b->segment) return a->segment < b->segment;
  return a->offset < b->offset;
}

}  // namespace bytetape::memory
