#pragma once
#include <array>
#include <cstdint>

#include "bytetape/core/dispatch.h"
#include "bytetape/core/kernels/matmul.h"
#include "bytetape/core/tensor.h"

namespace bytetape::optim {

/// The shape and number of matrices, and the dtype that a NewtonSchulz computes in.
struct MatrixBatch {
  std::int64_t count, rows, columns;
  DType dtype;
  Device device;
};

/// Orthogonalizes a batch of matrices by Newton-Schulz iterations of degree five (Jordan et al., "Muon: an optimizer
/// for hidden layers in neural networks", 2024).
///
/// A matrix X = U S V^T with a largest singular value of at most 1 becomes about U V^T. One iteration is
/// X = (a I + b G + c G^2) X with G = X X^T, or its mirror image if X has more rows than columns. The singular values
/// end near 1, not at 1. An iteration is three batched matrix products and an elementwise kernel.
class NewtonSchulz {
 public:
  /// Allocates all memory, so that run() cannot run out of it.
  explicit NewtonSchulz(const MatrixBatch& batch);

  /// Returns the place of a matrix before run(), and of its result after.
  View matrix(std::int64_t i, const Shape& shape, const Strides& strides) const;
  /// Takes `steps` iterations with coefficients (a, b, c). Call it once.
  void run(const std::array<double, 3>& coefficients, std::int64_t steps);

 private:
  MatmulArgs gram_args() const;
  MatmulArgs square_args() const;
  MatmulArgs product_args() const;

  MatrixBatch batch_;
  bool is_tall_;  // more rows than columns: G = X^T X
  Tensor x_, next_, gram_, square_;
  Prepared<&MatmulKernels::matmul> gram_kernel_, square_kernel_, product_kernel_;
};

}  // namespace bytetape::optim
