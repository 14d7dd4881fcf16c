#pragma once
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "bytetape/core/named_tensors.h"

namespace bytetape::data {

/// A batch of examples along the first dim: inputs x, targets y, and any further tensors, such as masks and boxes.
///
///     for (const auto& [x, y] : loader) ...
///     for (const Batch& batch : loader) train(batch.x, batch["mask"], batch["boxes"]);
struct Batch {
  Tensor x, y;
  NamedTensors more = {};  ///< the further tensors, in the order of ExampleSpec::more

  /// Returns the tensor of this name: "x", "y", or one of `more`.
  /// Throws ValueError, with the names that there are, if the batch has no such tensor.
  const Tensor& operator[](std::string_view name) const&;
  Tensor& operator[](std::string_view name) &;
  Tensor operator[](std::string_view name) &&;
  void operator[](int) const = delete;  // 0 would be a null pointer for a name
};

/// Returns x or y of a batch, for structured bindings.
template <std::size_t i>
const Tensor& get(const Batch& batch) {
  static_assert(i < 2, "a structured binding of a batch has x and y; the others are batch[name]");
  if constexpr (i == 0)
    return batch.x;
  else
    return batch.y;
}
template <std::size_t i>
Tensor& get(Batch& batch) {
  return const_cast<Tensor&>(get<i>(std::as_const(batch)));
}
template <std::size_t i>
Tensor&& get(Batch&& batch) {
  return std::move(get<i>(batch));
}

}  // namespace bytetape::data

/// \cond
// Doxygen does not know the templates that these specialise.
template <>
struct std::tuple_size<bytetape::data::Batch> : std::integral_constant<std::size_t, 2> {};
template <std::size_t i>
struct std::tuple_element<i, bytetape::data::Batch> {
  using type = bytetape::Tensor;
};
/// \endcond
