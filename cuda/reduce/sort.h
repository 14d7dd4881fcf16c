#pragma once
#include <cstddef>
#include <cstdint>

#include "bytetape/core/kernels/planned.h"

struct CUstream_st;

namespace bytetape::cuda {

/// n keys and as many numbers that go with them.
struct Pairs {
  std::uint64_t* keys;
  std::int64_t* values;
};

/// Bytes of n keys or numbers, so that the next ones are aligned.
std::size_t sort_buffer(std::int64_t n);
/// Bytes that sorting n pairs may take beside two buffers of keys and two of numbers.
std::size_t sort_scratch(std::int64_t n);
/// Sorts n pairs, more than none, by the low `bits` bits of their keys; those of equal ones stay in their order. It
/// goes back and forth between `pairs` and `other`; the result says for each of the two where it ended.
Pairs sort_pairs(Pairs pairs, Pairs other, std::int64_t n, int bits, Workspace scratch, CUstream_st* stream);

}  // namespace bytetape::cuda
