#pragma once
#include <concepts>
#include <type_traits>

namespace bytetape {

// What kernels of every backend compute alike where C++ leaves it open.

/// -v; the least integer stays what it is.
template <std::integral T>
constexpr T negated(T v) {
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(U{0} - static_cast<U>(v));
}
/// Exact, modulo 2^bits. Of negative exponents the whole part of the quotient: 0 but for 1 and -1.
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
