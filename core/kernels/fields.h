#pragma once
#include <cstddef>
#include <type_traits>
#include <utility>

/// \file
/// Calls a function on each field of a struct, in order. So a kernel's tensors are found in the struct of its arguments
/// without a list of them.
namespace bytetape::detail {

/// Converts to the type of any field, but not to `Struct` itself.
template <class Struct>
struct AnyField {
  template <class T>
  requires(!std::is_same_v<T, Struct>) operator T() const;
};

template <class Struct, std::size_t... i>
constexpr bool takes(std::index_sequence<i...>) {
  return requires { Struct{(static_cast<void>(i), AnyField<Struct>{})...}; };
}

/// The number of fields: the most values that initialise the struct.
template <class Struct, std::size_t most = 16>
constexpr std::size_t field_count() {
  static_assert(!takes<Struct>(std::make_index_sequence<17>()), "each_field() must name more fields");
  if constexpr (most == 0 || takes<Struct>(std::make_index_sequence<most>()))
    return most;
  else
    return field_count<Struct, most - 1>();
}

#define BYTETAPE_FIELDS(n, ...)                               \
  if constexpr (count == n) {                                 \
    const auto& [__VA_ARGS__] = s;                            \
    [&f](const auto&... all) { (f(all), ...); }(__VA_ARGS__); \
  }

/// Calls f(field) for each field of a struct without a base.
template <class Struct, class F>
void each_field(const Struct& s, const F& f) {
  static_assert(std::is_aggregate_v<Struct>);
  constexpr std::size_t count = field_count<Struct>();
  BYTETAPE_FIELDS(1, a)
  BYTETAPE_FIELDS(2, a, b)
  BYTETAPE_FIELDS(3, a, b, c)
  BYTETAPE_FIELDS(4, a, b, c, d)
  BYTETAPE_FIELDS(5, a, b, c, d, e)
  BYTETAPE_FIELDS(6, a, b, c, d, e, g)
  BYTETAPE_FIELDS(7, a, b, c, d, e, g, h)
  BYTETAPE_FIELDS(8, a, b, c, d, e, g, h, i)
  BYTETAPE_FIELDS(9, a, b, c, d, e, g, h, i, j)
  BYTETAPE_FIELDS(10, a, b, c, d, e, g, h, i, j, k)
  BYTETAPE_FIELDS(11, a, b, c, d, e, g, h, i, j, k, l)
  BYTETAPE_FIELDS(12, a, b, c, d, e, g, h, i, j, k, l, m)
  BYTETAPE_FIELDS(13, a, b, c, d, e, g, h, i, j, k, l, m, n)
  BYTETAPE_FIELDS(14, a, b, c, d, e, g, h, i, j, k, l, m, n, o)
  BYTETAPE_FIELDS(15, a, b, c, d, e, g, h, i, j, k, l, m, n, o, p)
  BYTETAPE_FIELDS(16, a, b, c, d, e, g, h, i, j, k, l, m, n, o, p, q)
}
#undef BYTETAPE_FIELDS

}  // namespace bytetape::detail
