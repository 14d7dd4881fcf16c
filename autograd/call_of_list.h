#pragma once
#include <concepts>
#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape::detail {

template <class T>
inline constexpr bool is_tuple_of_tensors = false;
template <std::same_as<Tensor>... T>
inline constexpr bool is_tuple_of_tensors<std::tuple<T...>> = true;
template <>
inline constexpr bool is_tuple_of_tensors<std::pair<Tensor, Tensor>> = true;

/// Calls f with the first n tensors of a list, and returns its result as a list.
/// f may return nothing, a Tensor, a std::vector<Tensor>, or a std::pair or std::tuple of Tensors.
template <std::size_t n, class F>
std::vector<Tensor> call_of_list(F& f, std::span<const Tensor> x) {
  return [&]<std::size_t... i>(std::index_sequence<i...>)->std::vector<Tensor> {
    using Result = std::remove_cvref_t<decltype(f(x[i]...))>;
    static_assert(std::is_void_v<Result> || std::is_same_v<Result, Tensor> ||
                      std::is_same_v<Result, std::vector<Tensor>> || is_tuple_of_tensors<Result>,
                  "expected a function that returns nothing, a Tensor, a std::vector<Tensor>, or a std::pair or "
                  "std::tuple of Tensors");
    if constexpr (std::is_void_v<Result>) {
      f(x[i]...);
      return {};
    } else if constexpr (std::is_same_v<Result, Tensor>) {
      return {f(x[i]...)};
    } else if constexpr (is_tuple_of_tensors<Result>) {
      return std::apply([](const auto&... t) { return std::vector<Tensor>{t...}; }, f(x[i]...));
    } else {
      return f(x[i]...);
    }
  }
  (std::make_index_sequence<n>());
}

/// Converts the list that call_of_list() returned back to f's result type.
template <class Result>
Result result_of_list(std::vector<Tensor> list) {
  if constexpr (std::is_same_v<Result, Tensor>)
    return std::move(list[0]);
  else if constexpr (is_tuple_of_tensors<Result>)
    return [&]<std::size_t... i>(std::index_sequence<i...>) { return Result(std::move(list[i])...); }
  (std::make_index_sequence<std::tuple_size_v<Result>>());
  else if constexpr (!std::is_void_v<Result>) return list;
}

}  // namespace bytetape::detail
