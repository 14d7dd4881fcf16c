#pragma once
#include <concepts>
#include <type_traits>

namespace bytetape {

/// Returns v / by, rounded up. Both are positive, or v is 0.
template <std::integral T>
constexpr T ceil_div(T v, std::type_identity_t<T> by) {
  return (v + by - 1) / by;
}
/// Returns the least multiple of `to` that is not below v. Both are positive, or v is 0.
template <std::integral T>
constexpr T round_up(T v, std::type_identity_t<T> to) {
  return ceil_div(v, to) * to;
}

// Integer operations that C++ leaves undefined, defined alike for the kernels of all backends.

/// Returns -v. The least integer is its own negative.
template <std::integral T>
constexpr T negated(T v) {
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(U{0} - static_cast<U>(v));
}
/// Returns base^exponent, exact modulo 2^bits. Negative exponents truncate the quotient: 0 unless the base is 1 or -1.
template <class T>
constexpr T integer_pow(T base, T exponent) {
  if constexpr (std::is_signed_v<T>)
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  using U = std::conditional_t<(sizeof(T) > sizeof(unsigned)), std::make_unsigned_t<T>, unsigned>;
  U result = 1, square = static_cast<U>(base);
  for (auto e = static_cast<U>(exponent); e != 0; e >>= 1, square *= square)
    if (e & 1) result *= square;
  return static_cast<T>(result);
}

}  // namespace bytetape
