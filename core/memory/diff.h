#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "bytetape/core/device/default_device.h"
#include "bytetape/core/memory/allocator/block.h"

namespace bytetape::memory {

class Allocator;

/// What the blocks that one op of one module allocated hold in one role; in a Difference, how much more.
struct Holding {
  NameId module = 0, op = 0;
  Role role = Role::temporary;
  std::int64_t bytes = 0, blocks = 0;
};

/// What a memory holds at a moment.
struct Holdings {
  Device device;
  std::string name;           ///< of the memory: "cuda:1", "pinned:cuda"
  std::int64_t bytes = 0;     ///< the sum
  std::vector<Holding> rows;  ///< one for each module, op and role; the largest first, equals by name
};
/// The rows of `blocks` (Allocator::blocks).
std::vector<Holding> holdings_of(const std::vector<Block>& blocks);

/// What is held now, block by block, to be compared with what is held later. Takes time by the number of blocks.
Holdings mark(Device device = default_device());
/// The same of any memory, such as pinned_for(device)->allocator().
Holdings mark(const Allocator& allocator);

/// What a memory holds more, and less, than it did.
struct Difference {
  Device device;
  std::string name;
  std::int64_t before = 0, after = 0;  ///< bytes held
  std::vector<Holding> rows;           ///< where bytes or blocks changed; what grew most first

  std::int64_t bytes() const { return after - before; }
};
/// What changed from one mark to the next. Throws ValueError where they are of different memories.
///
///     const memory::Holdings before = memory::mark();
///     for (int i = 0; i < 10; ++i) step();
///     std::cout << memory::diff(before, memory::mark());
Difference diff(const Holdings& before, const Holdings& after);
/// A table: bytes, blocks, role, module and op, what grew most first.
std::ostream& operator<<(std::ostream& out, const Difference& d);

}  // namespace bytetape::memory
