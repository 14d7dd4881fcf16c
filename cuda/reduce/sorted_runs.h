#pragma once
#include <cstddef>
#include <cstdint>

#include "bytetape/core/kernels/gather.h"
#include "bytetape/core/kernels/indexing.h"
#include "bytetape/core/view.h"

namespace bytetape::cuda {

/// The scratch of a kernel that sorts the places of an index by their targets, as offsets in bytes. It begins with the
/// targets and the places, twice each for the sort.
struct RunsScratch {
  /// For `places` places. `targets` > 0 if a place of each target's first place is needed. A place adds `columns`
  /// elements of a dtype; 0 if it replaces them.
  RunsScratch(std::int64_t places, std::int64_t targets, std::int64_t columns, DType dtype);

  std::size_t buffer;      // bytes of a list of targets or places
  std::size_t starts;      // the first place of each target
  std::size_t chunk_sums;  // a sum for each chunk and column
  std::size_t sort;        // the scratch of the sort
  std::size_t bytes;       // all
  std::int64_t chunk = 0;  // the number of places of a chunk; 0 if long runs are not divided
  std::int64_t chunks = 0;
};

RunsScratch scratch_of(const IndexSumArgs& a);
RunsScratch scratch_of(const IndexWriteArgs& a, bool adds);
RunsScratch scratch_of(const ScatterArgs& a, bool adds);

/// Whether a scatter sorts its index. If not, the thread of each element compares its index with those of its line.
bool is_sorted(const ScatterArgs& a);

/// Targets in order, with their places. The places of a target are a run. A run has the order of the index. The target
/// `bound` is left out, and larger ones are invalid. Both come last.
struct SortedRuns {
  const std::uint64_t* targets;
  const std::int64_t* places;
  std::int64_t count, bound;
  std::int64_t chunk, chunks;  // as in RunsScratch
  char* chunk_sums;
};

}  // namespace bytetape::cuda
