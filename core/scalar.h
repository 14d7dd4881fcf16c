#pragma once
#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <utility>

#include "bytetape/core/dtype.h"

namespace bytetape {

/// A number argument of an op: a double or an exact int64. Larger unsigned integers become doubles. The op converts it
/// to the tensor's dtype.
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
  /// Converts to T as C++ does, unchecked. See fits().
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
/// Whether dtype t can represent the number. Floating dtypes take any number, rounded. Integers and bool take integers
/// in their range.
bool fits(const Scalar& s, DType t);

}  // namespace bytetape
