#pragma once
#include <concepts>
#include <cstdint>
#include <variant>
#include <vector>

#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// An index for index() that stands for Slice() in each dim without an index.
inline constexpr struct EllipsisType {
} Ellipsis;

/// An index for index(): an integer, a Slice, None, Ellipsis, an i64 tensor, or a mask.
class TensorIndex {
 public:
  using Value = std::variant<std::int64_t, Slice, NoneType, EllipsisType, Tensor>;

  template <detail::Integer T>
  TensorIndex(T i) : value_(static_cast<std::int64_t>(i)) {}
  TensorIndex(const Slice& slice) : value_(slice) {}
  TensorIndex(NoneType) : value_(None) {}
  TensorIndex(EllipsisType) : value_(Ellipsis) {}
  TensorIndex(const Tensor& index) : value_(index) {}

  const Value& value() const { return value_; }

 private:
  Value value_;
};

/// Indexes x as Python does (torch.Tensor.index), one index per dim from the first on:
///
///     index(x, {Slice(1, 5), None, 3, Ellipsis, Slice(0, None, 2)})   // x[1:5, None, 3, ..., ::2]
///
/// - An integer selects an element and drops the dim. It may be negative.
/// - A Slice selects a range, and Slice() the whole dim. None adds a dim of size 1.
/// - Ellipsis stands for the dims without an index. They are at the end if there is no Ellipsis.
/// - An i64 tensor of any shape replaces the dim by the tensor's dims, as index_select() does for one dim. Its elements
///   may be negative.
/// - Several tensors are broadcast together, and element i of all of them selects one place: `index(logits, {rows,
///   classes})` is logits[rows[i], classes[i]]. The broadcast dims replace the indexed dims, and come first if another
///   dim lies between two tensors. A tensor without dims is no integer. x is copied if indexed dims are not adjacent.
/// - A mask is a bool tensor with at least one dim. It selects the elements where it is true, in row-major order, and
///   replaces its dims of x by one dim. Its shape must be that of the dims. Among several tensors it counts as one of
///   shape (number of true elements). The host reads it, as in nonzero(). Use where() if that suffices, because where()
///   does not wait.
///
/// Without a tensor the result is a view of x, so `index(x, {...}) = y` writes into x.
/// Differentiable to any order.
/// Throws ShapeError if there are too many indices, an integer is out of range, tensors do not broadcast together, or a
/// mask has another shape than its dims of x.
/// Throws DTypeError if a tensor is neither i64 nor bool.
/// Throws DeviceError for a mask on a meta device.
/// Throws CaptureError for a mask in a step captured on a GPU.
/// Throws ValueError if there are two Ellipsis, a step is not positive, or an element of a tensor is out of range.
Tensor index(const Tensor& x, const std::vector<TensorIndex>& indices);

/// Returns the indices of the elements of x that are not 0, row-major: i64 (count, x.rank()) (torch.nonzero). The count
/// depends on values, so the host waits for the device and reads x. Not differentiable.
/// Throws DeviceError on a meta device, as in memory::predict(), and CaptureError in a step captured on a GPU.
Tensor nonzero(const Tensor& x);

}  // namespace bytetape
