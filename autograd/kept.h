#pragma once
#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>

namespace bytetape::detail {

/// Whether a function object that is passed as an lvalue is stored by reference. Modules are, although nn::clone() can
/// copy them.
template <class F>
inline constexpr bool is_kept_by_reference = !std::copy_constructible<F>;

/// Returns fn to store: by value, or a reference to it.
template <class F>
auto kept(F&& fn) {
  if constexpr (std::is_lvalue_reference_v<F> && is_kept_by_reference<std::remove_cvref_t<F>>)
    return std::ref(fn);
  else
    return std::forward<F>(fn);
}

}  // namespace bytetape::detail
