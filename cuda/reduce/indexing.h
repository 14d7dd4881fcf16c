#pragma once
#include <cstddef>

#include "bytetape/core/kernels/indexing.h"

namespace bytetape::cuda {

/// How index_sum uses its scratch, in bytes from its begin: the index and its places, twice each, for the sort; where
/// each slice's places start; the sort's own.
struct IndexSumScratch {
  std::size_t buffer, starts, sort, bytes;
  explicit IndexSumScratch(const IndexSumArgs& a);
};

}  // namespace bytetape::cuda
