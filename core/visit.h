#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

#include "bytetape/core/dtype.h"
#include "bytetape/core/error.h"

namespace bytetape {

/// Calls f with a value of t's C++ type: visit_floating(t, [&](auto zero) { using T = decltype(zero); ... }).
/// Throws DTypeError if t is not floating-point.
template <class F>
decltype(auto) visit_floating(DType t, F&& f) {
  switch (t) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(BFloat16{});
    case DType::f16:
      return f(Half{});
    default:
      fail<DTypeError>("expected a floating dtype, got ", t);
  }
}

/// Calls f with a value of t's C++ type, for any dtype.
template <class F>
decltype(auto) visit(DType t, F&& f) {
  switch (t) {
    case DType::i64:
      return f(std::int64_t{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::u8:
      return f(std::uint8_t{});
    case DType::boolean:
      return f(bool{});
    default:
      return visit_floating(t, f);
  }
}

/// Calls f with a value of t's C++ type, for any dtype except bool.
template <class F>
void visit_arithmetic(DType t, F&& f) {
  visit(t, [&](auto zero) {
    if constexpr (!std::is_same_v<decltype(zero), bool>) f(zero);
  });
}
/// Calls f as visit_arithmetic() does, but with unsigned integers of the same size, whose overflow is defined.
template <class F>
void visit_wrapping(DType t, F&& f) {
  visit_arithmetic(t, [&](auto zero) {
    if constexpr (std::is_integral_v<decltype(zero)>)
      f(std::make_unsigned_t<decltype(zero)>{});
    else
      f(zero);
  });
}
/// The type in which elements of T are computed and accumulated: float for 16-bit floats, else T.
template <class T>
using compute_t = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

}  // namespace bytetape
