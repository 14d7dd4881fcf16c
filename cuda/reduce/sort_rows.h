#pragma once
#include <cstdint>

#include "bytetape/core/kernels/sort.h"

namespace bytetape::cuda {

/// How a device sorts rows along a dim. The shape and dtype alone decide.
struct SortRows {
  enum class Way : std::int64_t {
    none,      ///< there is nothing to sort
    in_block,  ///< a block sorts whole rows in shared memory
    selected,  ///< a block selects the few elements that are kept, and sorts them in shared memory
    radix,     ///< one radix sort of all rows, with scratch
  };
  /// The shared memory for tickets, in bytes, which limits the rows that a block sorts.
  static constexpr std::int64_t shared_bytes = 32768;
  /// The most elements that a block selects.
  static constexpr std::int64_t most_selected = 1024;

  std::int64_t count, size, kept;  // rows, elements of a row, and the first ones that are results
  int key_bits, row_bits;          // bits that tell keys and rows apart
  Way way;

  explicit SortRows(const SortArgs& a);
  /// Whether a 64-bit number holds the row and the key. Else the radix sort sorts twice.
  bool has_joint_keys() const { return key_bits + row_bits <= 64; }
};

}  // namespace bytetape::cuda
