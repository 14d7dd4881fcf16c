#pragma once
#include <cstring>

#include "bytetape/core/device/device.h"
#include "bytetape/core/dtype.h"
#include "bytetape/core/scalar.h"
#include "bytetape/core/shape.h"

namespace bytetape {

/// The input of a kernel: a pointer, a shape and strides in elements, where stride 0 repeats.
/// A constant has no pointer and holds its one element, so that kernels on two tensors also take a tensor and a number.
class ConstView {
 public:
  ConstView() = default;
  ConstView(const void* data, DType dtype, Device device, const Shape& shape, const Strides& strides)
      : shape(shape), strides(strides), dtype(dtype), device(device), data_(data) {}
  /// Returns `value`, converted to dtype and repeated over `shape`.
  static ConstView constant(Scalar value, DType dtype, Device device, const Shape& shape);

  /// The first element, on `device`; null for a constant.
  const void* data() const { return data_; }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data());
  }
  bool defined() const { return is_constant_ || data_ != nullptr || shape.size() > 0; }
  bool is_constant() const { return is_constant_; }
  /// The constant's element, in the low bytes. The reference is valid as long as this view.
  const std::uint64_t& constant_bits() const { return constant_; }
  /// The constant's number for computation. For 16-bit floats it may be unrounded, because kernels compute in f32.
  double number() const { return number_; }
  /// Returns this constant with the unrounded `number`.
  ConstView unrounded(Scalar number) const;
  int rank() const { return shape.size(); }
  std::int64_t numel() const { return bytetape::numel(shape); }
  bool is_contiguous() const { return bytetape::is_contiguous(shape, strides); }
  /// Broadcasts to `to`. The caller has checked the shapes.
  ConstView expand(const Shape& to) const;

  Shape shape;
  Strides strides;
  DType dtype = DType::f32;
  Device device;

 protected:
  const void* data_ = nullptr;
  bool is_constant_ = false;
  std::uint64_t constant_ = 0;
  double number_ = 0;
};

/// The output of a kernel.
class View : public ConstView {
 public:
  View() = default;
  View(void* data, DType dtype, Device device, const Shape& shape, const Strides& strides)
      : ConstView(data, dtype, device, shape, strides) {}
  void* data() const { return const_cast<void*>(data_); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data());
  }
};

/// Returns a scalar as a vector of one element, and other views as they are.
template <class V>
V with_dim(V v) {
  if (v.rank() == 0) v.shape = {1}, v.strides = {1};
  return v;
}

}  // namespace bytetape
