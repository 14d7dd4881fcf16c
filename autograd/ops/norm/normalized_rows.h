#pragma once
/// \file
/// The checks and shapes that layer_norm and rms_norm share.
#include <initializer_list>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/view.h"

namespace bytetape {

/// Checks x, which is normalised over its last dims, `shape`.
void check_normalized(const Tensor& x, const Shape& shape, double eps);
/// Checks a weight or bias of the op. It may be undefined.
void check_normalized(const Tensor& coefficient, const char* name, const Tensor& x, const Shape& shape);

/// Returns the dtype in which a kernel gets the weight and bias: that of x if they have it and nothing is recorded, as
/// a conversion would be a launch for each. Otherwise the dtype in which rows are accumulated, as backward needs. Also
/// if one begins at an odd place in memory: kernels would read it in smaller vectors, and add rows in another order.
DType coefficient_dtype(const Tensor& x, std::initializer_list<const Tensor*> coefficients, bool is_recorded);

/// Flattens the arguments of an op that normalises x over its last dims. Undefined tensors stay undefined.
class NormalizedRows {
 public:
  /// `dtype` is that of the weight and bias.
  NormalizedRows(const Tensor& x, const Shape& normalized_shape, DType dtype)
      : dtype_(dtype), size_(bytetape::numel(normalized_shape)), count_(size_ == 0 ? 0 : x.numel() / size_) {}
  /// Returns v, which is like x, as (rows, elements of a row).
  Tensor rows(const Tensor& v) const { return v.defined() ? reshape(contiguous(v), {count_, size_}) : v; }
  /// Returns a weight or bias as a vector.
  Tensor row(const Tensor& v) const { return v.defined() ? reshape(contiguous(to(v, dtype_)), size_) : v; }

 private:
  DType dtype_;
  std::int64_t size_, count_;
};

}  // namespace bytetape
