#pragma once
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape::detail {

/// f of the first n tensors of a list, whatever f returns (nothing, a Tensor or a std::vector<Tensor>), as a list.
template <std::size_t n, class F>
std::vector<Tensor> call_of_list(F& f, std::span<const Tensor> x) {
  return [&]<std::size_t... i>(std::index_sequence<i...>)->std::vector<Tensor> {
    using Result = decltype(f(x[i]...));
    static_assert(
        std::is_void_v<Result> || std::is_same_v<Result, Tensor> || std::is_same_v<Result, std::vector<Tensor>>,
        "expected a function that returns nothing, a Tensor or a std::vector<Tensor>");
    if constexpr (std::is_void_v<Result>) {
      f(x[i]...);
      return {};
    } else if constexpr (std::is_same_v<Result, Tensor>) {
      return {f(x[i]...)};
    } else {
      return f(x[i]...);
    }
  }
  (std::make_index_sequence<n>());
}

/// That list as f returned it.
template <class Result>
Result result_of_list(std::vector<Tensor> list) {
  if constexpr (std::is_same_v<Result, Tensor>)
    return std::move(list[0]);
  else if constexpr (!std::is_void_v<Result>)
    return list;
}

}  // namespace bytetape::detail
