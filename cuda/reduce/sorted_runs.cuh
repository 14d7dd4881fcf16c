#pragma once
// Writes to targets that an index selects, for ops whose index may select a target several times. The places of the
// index are sorted by their targets. One thread then handles all places of a target, in their order, so that every run
// of the program has the same bits without atomics.
#include <cstring>

#include "bytetape/core/kernels/planned.h"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/reduce/sort.h"
#include "bytetape/cuda/reduce/sorted_runs.h"

namespace bytetape::cuda {

__device__ inline std::int64_t this_thread() { return std::int64_t{blockIdx.x} * block_size + threadIdx.x; }
__device__ inline std::int64_t all_threads() { return std::int64_t{gridDim.x} * block_size; }

/// The slices of x along a dim, by place. x is null if all elements are `constant`.
template <class T>
struct Slices {
  const T* x;
  std::int64_t step;
  T constant;

  Slices(const ConstView& v, int dim) : x(v.as<T>()), step(v.is_constant() ? 0 : v.strides[dim]), constant{} {
    if (v.is_constant()) std::memcpy(&constant, &v.constant_bits(), sizeof constant);
  }
  __device__ T at(std::int64_t offset, std::int64_t place) const { return x ? x[offset + place * step] : constant; }
};

/// Returns the target of a place that is left out, or of one whose index is invalid.
__host__ __device__ inline std::uint64_t left_out_target(std::int64_t bound) {
  return static_cast<std::uint64_t>(bound);
}
__host__ __device__ inline std::uint64_t invalid_target(std::int64_t bound) {
  return static_cast<std::uint64_t>(bound) + 1;
}

/// Sorts the pairs that `write` stores: write(pairs) launches a kernel that sets target and place number i, for all
/// places of the scratch's layout.
template <class F>
SortedRuns sort_runs(const RunsScratch& layout, std::int64_t count, std::int64_t bound, Workspace ws,
                     cudaStream_t stream, const F& write) {
  auto* const data = static_cast<char*>(ws.data);
  const auto pairs = [&](std::size_t i) {
    char* const keys = data + i * layout.buffer;
    return Pairs{reinterpret_cast<std::uint64_t*>(keys), reinterpret_cast<std::int64_t*>(keys + layout.buffer)};
  };
  Pairs sorted = pairs(0);
  if (count > 0) {
    write(sorted);
    check_launch();
    const int bits = std::bit_width(invalid_target(bound));
    sorted = sort_pairs(sorted, pairs(2), count, bits, {data + layout.sort, ws.bytes - layout.sort}, stream);
  }
  return {sorted.keys, sorted.values, count, bound, layout.chunk, layout.chunks, data + layout.chunk_sums};
}

// x has a slice along dim for each place, and y one for each target. For single elements both have one dim, and places
// and targets are offsets.

/// Sums the slices of each target: y is the sum, or 0 if there is none. `starts` is scratch for bound + 1 numbers.
void sum_runs(const SortedRuns& runs, const ConstView& x, int dim, const View& y, std::int64_t* starts);
/// Adds the slices of each target to y. Does nothing if a target is invalid and `keeps_on_fault`.
void add_runs(const SortedRuns& runs, const ConstView& x, int dim, const View& y, bool keeps_on_fault);
/// Copies the last slice of each target to y. x may be a constant. Does nothing if a target is invalid and
/// `keeps_on_fault`.
void copy_runs(const SortedRuns& runs, const ConstView& x, int dim, const View& y, bool keeps_on_fault);

}  // namespace bytetape::cuda
