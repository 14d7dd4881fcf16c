#pragma once
#include <cstddef>
#include <cstdint>

#include "bytetape/core/kernels/planned.h"

struct CUstream_st;

namespace bytetape::cuda {

/// n keys and their n values.
struct Pairs {
  std::uint64_t* keys;
  std::int64_t* values;
};

/// The bytes of a buffer of n keys or values, rounded up so that the next buffer is aligned.
std::size_t sort_buffer(std::int64_t n);
/// The bytes of scratch that sorting n pairs needs besides two buffers of keys and two of values.
std::size_t sort_scratch(std::int64_t n);
/// Sorts n > 0 pairs by the low `bits` bits of their keys. The sort is stable. It alternates between `pairs` and
/// `other`. The result points to the sorted keys and values in either.
Pairs sort_pairs(Pairs pairs, Pairs other, std::int64_t n, int bits, Workspace scratch, CUstream_st* stream);

}  // namespace bytetape::cuda
