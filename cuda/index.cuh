#pragma once
// Walks (core/walk.h) as arguments of kernels, which find where element i lies in each operand.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "bytetape/core/images/resample.h"
#include "bytetape/core/walk.h"

namespace bytetape::cuda {

/// Divides indices by a number that is known on the host.
template <class I>
struct Divisor {
  I value;
  __device__ I quotient(I i) const { return i / value; }
};
/// Divides indices below 2^31 by a multiplication: Granlund and Montgomery, "Division by invariant integers using
/// multiplication" (1994), figure 4.1.
template <>
struct Divisor<std::uint32_t> {
  std::uint32_t value, factor, shift;

  Divisor() = default;
  explicit Divisor(std::uint32_t by) : value(by), shift(static_cast<std::uint32_t>(std::bit_width(by - 1))) {
    factor = static_cast<std::uint32_t>((((std::uint64_t{1} << shift) - by) << 32) / by + 1);
  }
  __device__ std::uint32_t quotient(std::uint32_t i) const { return (__umulhi(i, factor) + i) >> shift; }
};

/// Splits indices of type I into positions in dims, the innermost dim first. The caller's loop over dims is unrolled.
template <class I>
struct Positions {
  int rank;
  I count = 1;
  Divisor<I> sizes[max_rank];

  /// size_of(d) is the size of dim d.
  template <class F>
  Positions(int dims, const F& size_of) : rank(std::max(dims, 1)) {
    for (int d = 0; d < dims; ++d) {
      count *= static_cast<I>(size_of(d));
      if (d + 1 < dims) sizes[d] = Divisor<I>{std::max(static_cast<I>(size_of(d)), I{1})};  // the outermost needs none
    }
  }
  /// Returns the position of i in dim d, and divides i by its size.
  __device__ I take(int d, I& i) const {
    const bool is_last = d + 1 == rank;
    const I rest = is_last ? 0 : sizes[d].quotient(i), at = is_last ? i : i - rest * sizes[d].value;
    i = rest;
    return at;
  }
};

/// A walk that divides by multiplications, for kernels that find offsets for each element.
template <int K, class I>
struct Steps : Positions<I> {
  std::int64_t strides[K][max_rank], first[K];

  explicit Steps(const Walk<K>& walk, const std::array<std::int64_t, K>& from = {})
      : Positions<I>(walk.shape.size(), [&](int d) { return walk.shape[walk.shape.size() - 1 - d]; }) {
    for (int k = 0; k < K; ++k) {
      std::reverse_copy(walk.strides[k].begin(), walk.strides[k].end(), strides[k]);
      first[k] = from[k];
      if (walk.shape.empty()) strides[k][0] = 0;
    }
  }
  /// Finds the offsets of element i, counted with the last dim of the walk innermost.
  __device__ void find(I i, std::int64_t (&offsets)[K]) const {
    for (int k = 0; k < K; ++k) offsets[k] = first[k];
#pragma unroll
    for (int d = 0; d < max_rank; ++d) {
      const I at = this->take(d, i);
      for (int k = 0; k < K; ++k) offsets[k] += static_cast<std::int64_t>(at) * strides[k][d];
      if (d + 1 == this->rank) return;
    }
  }
};

/// The limit of 32-bit indices.
inline constexpr std::int64_t index_limit = std::int64_t{1} << 31;

/// Calls f with the walk as a kernel's argument, with 32-bit indices if they count its elements.
template <std::size_t K, class F>
void with_steps(const Walk<K>& walk, const F& f) {
  if (numel(walk.shape) < index_limit)
    f(Steps<K, std::uint32_t>(walk));
  else
    f(Steps<K, std::int64_t>(walk));
}

/// A walk of at most `dims` dims that divides by their sizes, for kernels whose threads need registers, and may count
/// beyond 2^31. With few dims the loop is unrolled, because an array indexed by a variable is copied to memory. With
/// max_rank it is not: the kernel takes the walk as a __grid_constant__, which is indexed where it is.
template <std::size_t K, int dims = max_rank>
struct Offsets {
  int rank;
  bool is_small;  // 32 bits count the elements, which divide faster
  std::int64_t sizes[dims], strides[K][dims];

  explicit Offsets(const Walk<K>& walk) : rank(walk.shape.size()), is_small(numel(walk.shape) <= UINT32_MAX) {
    std::copy(walk.shape.begin(), walk.shape.end(), sizes);
    for (std::size_t k = 0; k < K; ++k) std::copy(walk.strides[k].begin(), walk.strides[k].end(), strides[k]);
  }
  /// Adds the offsets of element i, counted with the last dim innermost.
  __device__ void add(std::int64_t i, std::int64_t (&offsets)[K]) const {
    constexpr bool unrolls = dims < max_rank;
    if (!unrolls || rank > 1)
#pragma unroll(unrolls ? dims : 1)
      for (int d = (unrolls ? dims : rank) - 1; d > 0; --d) {
        if (unrolls && d >= rank) continue;
        const std::int64_t rest = unrolls    ? resample::quotient(i, sizes[d])
                                  : is_small ? static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(sizes[d])
                                             : i / sizes[d];
        for (std::size_t k = 0; k < K; ++k) offsets[k] += (i - rest * sizes[d]) * strides[k][d];
        i = rest;
      }
    for (std::size_t k = 0; k < K; ++k) offsets[k] += i * strides[k][0];
  }
  /// Returns the offset of element i in the first operand.
  __device__ std::int64_t first(std::int64_t i) const {
    std::int64_t offsets[K] = {};
    add(i, offsets);
    return offsets[0];
  }
};

}  // namespace bytetape::cuda
