#pragma once
#include <cstdint>
#include <utility>

#include "bytetape/core/dtype.h"
#include "bytetape/core/error.h"

namespace bytetape {

/// Calls f with a value of the C++ type of `t`: visit(t, [&](auto zero) { using T = decltype(zero); ... }).
template <class F>
decltype(auto) visit(DType t, F&& f) {
  switch (t) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(BFloat16{});
    case DType::f16:
      return f(Half{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::u8:
      return f(std::uint8_t{});
    case DType::boolean:
      return f(bool{});
  }
  __builtin_unreachable();
}

/// visit() over the floating types only; throws DTypeError on others.
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

/// The type that elements of T are computed and accumulated in: float for the 16-bit floats, else T.
template <class T>
struct Compute {
  using type = T;
};
template <>
struct Compute<BFloat16> {
  using type = float;
};
template <>
struct Compute<Half> {
  using type = float;
};
template <class T>
using compute_t = typename Compute<T>::type;

}  // namespace bytetape
