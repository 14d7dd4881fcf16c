#pragma once
#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <utility>

#include "bytetape/core/dtype.h"

namespace bytetape {

/// A number given to an op: a double, or an int64 kept exact (a larger unsigned one is a double). Converted to the
/// tensor's dtype by the op.
class Scalar {
 public:
  template <std::integral T>
  Scalar(T v) : integral_(std::in_range<std::int64_t>(+v)) {
    if (integral_)
      i_ = static_cast<std::int64_t>(v);
    else
      d_ = static_cast<double>(v);
  }
  template <std::floating_point T>
  Scalar(T v) : integral_(false), d_(static_cast<double>(v)) {}

  bool is_integral() const { return integral_; }
  /// Converted to T as C++ does it, unchecked: see fits().
  template <class T>
  T to() const {
    if constexpr (std::is_same_v<T, bool>)
      return integral_ ? i_ != 0 : d_ != 0;
    else if constexpr (std::is_arithmetic_v<T>)
      return integral_ ? static_cast<T>(i_) : static_cast<T>(d_);
    else
      return T(static_cast<float>(to<double>()));
  }

 private:
  bool integral_;
  union {
    std::int64_t i_;
    double d_;
  };
};
std::ostream& operator<<(std::ostream& out, const Scalar& s);
/// True where dtype t has the number: floats take any (rounded), integers and bool only whole ones in their range.
bool fits(const Scalar& s, DType t);

}  // namespace bytetape
