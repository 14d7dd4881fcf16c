#pragma once
#include <cstdint>
#include <string>

namespace bytetape::cuda {

/// What the speed of a product depends on, to the library's choice of an algorithm.
struct ProductKind {
  int dtype, tf32, epilogue, transposed;  // `transposed` by bits: a, b, and f32 as the result of 16-bit matrices
  std::int64_t m, n, k, batch;
  friend bool operator==(const ProductKind&, const ProductKind&) = default;
};
/// A device and a library, by its compute capability ("90") and cuBLASLt's version ("130100").
struct ProductLibrary {
  int capability;
  std::int64_t version;
  friend bool operator==(const ProductLibrary&, const ProductLibrary&) = default;
};

/// Which of the algorithms that the library proposes is to run: as was measured, for this library, by tune() in this
/// process or for products.inc; else the first.
int rank_of(const ProductLibrary& library, const ProductKind& kind);
/// Replaces it.
void set_rank(const ProductLibrary& library, const ProductKind& kind, int rank);

}  // namespace bytetape::cuda
