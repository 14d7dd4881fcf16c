#pragma once
#include <cstdint>
#include <optional>

#include "bytetape/core/kernels/matmul.h"

namespace bytetape::cuda {

// cuBLASLt takes up to seven times as long for a large product of 16-bit numbers if a dim is not a multiple of 8, even
// if all rows are aligned. Such a product is computed in two parts: whole multiples of 8, and the rest.

/// A dim of a product (m, k) @ (k, n).
enum class ProductDim { m, n, k };

/// Returns the dim along which to divide a product, or nullopt if it is computed at once.
std::optional<ProductDim> dim_to_divide(const MatmulArgs& args);

/// The parts of a product. The second one follows the first one.
struct Parts {
  MatmulArgs whole, rest;
};
/// Divides a product so that the dim is a multiple of 8 in the first part.
Parts divide(const MatmulArgs& args, ProductDim dim);

}  // namespace bytetape::cuda
