#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "bytetape/core/device/default_device.h"
#include "bytetape/core/memory/allocator/block.h"

namespace bytetape::memory {

class Allocator;

/// The blocks of one role that one op of one module allocated. In a Difference, the change.
struct Holding {
  NameId module = 0, op = 0;
  Role role = Role::temporary;
  std::int64_t bytes = 0, blocks = 0;
};

/// The blocks held in a memory at one moment.
struct Holdings {
  Device device;
  std::string name;           ///< the memory's name: "cuda:1", "pinned:cuda"
  std::int64_t bytes = 0;     ///< the sum
  std::vector<Holding> rows;  ///< one for each module, op and role; the largest first, ties by name
};
/// Groups `blocks` (from Allocator::blocks) into rows.
std::vector<Holding> holdings_of(const std::vector<Block>& blocks);

/// Returns the blocks that a device holds now, to compare with a later mark. O(number of blocks).
Holdings mark(Device device = default_device());
/// The same for any memory, such as pinned_for(device)->allocator().
Holdings mark(const Allocator& allocator);

/// The change between two marks of a memory.
struct Difference {
  Device device;
  std::string name;
  std::int64_t before = 0, after = 0;  ///< bytes held
  std::vector<Holding> rows;           ///< rows whose bytes or blocks changed; the largest growth first

  std::int64_t bytes() const { return after - before; }
};
/// Returns the change from one mark to a later one.
/// Throws ValueError if the marks are of different memories.
///
///     const memory::Holdings before = memory::mark();
///     for (int i = 0; i < 10; ++i) step();
///     std::cout << memory::diff(before, memory::mark());
Difference diff(const Holdings& before, const Holdings& after);
/// Prints a table of bytes, blocks, role, module and op; the largest growth first.
std::ostream& operator<<(std::ostream& out, const Difference& d);

}  // namespace bytetape::memory
