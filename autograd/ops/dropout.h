#pragma once
#include "bytetape/core/random.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Zeroes each element with probability p and scales the others by 1 / (1 - p). Returns x itself if !training or p is
/// 0.
/// Saves no mask, because backward generates the same random bits again. Differentiable to any order.
/// Throws DTypeError if x is not floating-point.
/// Throws ValueError unless 0 <= p <= 1.
Tensor dropout(const Tensor& x, double p, bool training = true, Generator& generator = default_generator());
namespace detail {
/// Returns the numbers of dropout() in row-major order, which a flatten() behind it needs.
Tensor row_major_dropout(const Tensor& x, double p, bool training = true, Generator& generator = default_generator());
/// Drops the elements of x that the random bits at `state` select. Used by backward rules that repeat the dropout of
/// forward.
Tensor dropout_at(const PhiloxState& state, const Tensor& x, double p);
}  // namespace detail

}  // namespace bytetape
