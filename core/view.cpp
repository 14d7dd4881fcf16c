#include "bytetape/core/view.h"

#include "bytetape/core/visit.h"

namespace bytetape {

ConstView ConstView::constant(Scalar value, DType dtype, Device device, const Shape& shape) {
  ConstView v;
  v.shape = shape;
  v.strides = Dims::filled(shape.size(), 0);
  v.dtype = dtype;
  v.device = device;
  v.is_constant_ = true;
  visit(dtype, [&](auto zero) {
    decltype(zero) converted = value.to<decltype(zero)>();
    std::memcpy(&v.constant_, &converted, sizeof converted);
    if constexpr (std::is_arithmetic_v<decltype(converted)>)
      v.number_ = static_cast<double>(converted);
    else
      v.number_ = static_cast<float>(converted);
  });
  return v;
}

ConstView ConstView::unrounded(Scalar number) const {
  ConstView v = *this;
  v.number_ = number.to<double>();
  return v;
}

ConstView ConstView::expand(const Shape& to) const {
  ConstView v = *this;
  const int added = to.size() - shape.size();
  v.shape = to;
  v.strides = Dims::filled(to.size(), 0);
  for (int i = 0; i < shape.size(); ++i)
    if (shape[i] == to[i + added]) v.strides[i + added] = strides[i];
  return v;
}

}  // namespace bytetape
