#pragma once
#include <cstddef>

#include "bytetape/core/kernels/indexing.h"

namespace bytetape::cuda {

/// The layout of index_sum's scratch, as offsets in bytes. It begins with the indices and their positions, twice each
/// for the sort. `starts` has each slice's first position. `sort` is the scratch of the sort.
struct IndexSumScratch {
  std::size_t buffer, starts, sort, bytes;
  explicit IndexSumScratch(const IndexSumArgs& a);
};

}  // namespace bytetape::cuda
