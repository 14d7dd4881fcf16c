#pragma once
#include <cstring>

#include "bytetape/core/device/device.h"
#include "bytetape/core/dtype.h"
#include "bytetape/core/scalar.h"
#include "bytetape/core/shape.h"

namespace bytetape {

/// What a kernel reads: a pointer and how to walk it. Strides count elements; 0 repeats. A constant has no pointer but
/// holds its one element, so that an op on a tensor and a number is the same kernel as on two tensors.
class ConstView {
 public:
  ConstView() = default;
  ConstView(const void* data, DType dtype, Device device, const Shape& shape, const Strides& strides)
      : shape(shape), strides(strides), dtype(dtype), device(device), data_(data) {}
  /// `value` converted to dtype and repeated over `shape`.
  static ConstView constant(Scalar value, DType dtype, Device device, const Shape& shape);

  /// The first element, on `device`; null of a constant.
  const void* data() const { return data_; }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data());
  }
  bool defined() const { return is_constant_ || data_ != nullptr || shape.size() > 0; }
  bool is_constant() const { return is_constant_; }
  /// A constant's element, whose dtype's bytes come first; the reference is as good as this view.
  const std::uint64_t& constant_bits() const { return constant_; }
  /// A constant as kernels compute with it: 16-bit floats are computed in f32, where the number need not be rounded.
  double number() const { return number_; }
  /// The same constant with `number` unrounded.
  ConstView unrounded(Scalar number) const;
  int rank() const { return shape.size(); }
  std::int64_t numel() const { return bytetape::numel(shape); }
  bool is_contiguous() const { return bytetape::is_contiguous(shape, strides); }
  /// Broadcast to `to`, which the caller has checked.
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

/// What a kernel writes.
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

}  // namespace bytetape
