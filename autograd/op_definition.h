#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "bytetape/core/kernels/families.h"

namespace bytetape {

/// The dtype that an op computes in and returns under Autocast. Integers and f64 never change.
enum class AutocastClass : std::uint8_t {
  keep,    ///< the dtype of its input
  low,     ///< the 16-bit dtype of the Autocast
  f32,     ///< f32 for 16-bit inputs
  widest,  ///< the widest floating dtype of the tensors that it combines, without weights and statistics
};
/// How an op computes its result.
enum class OpKind : std::uint8_t {
  kernel,     ///< runs kernels of its family, after copies of inputs if a kernel needs another layout
  view,       ///< returns a view of its input's memory
  composite,  ///< calls other ops, which observers also see
};
/// The type of an attribute. `number` is a double; an integer argument is converted.
enum class AttributeType : std::uint8_t { boolean, integer, number, integers, text };

/// The name and type of a non-tensor argument of an op.
struct AttributeDefinition {
  std::string_view name;
  AttributeType type;
};

namespace detail {

/// A list of at most `capacity` items that can be constexpr.
template <class T, std::size_t capacity>
struct ConstantList {
  std::array<T, capacity> items{};
  std::size_t count = 0;

  constexpr ConstantList() = default;
  constexpr ConstantList(std::initializer_list<T> list) {
    for (const T& item : list) items[count++] = item;
  }
  constexpr std::size_t size() const { return count; }
  constexpr const T& operator[](std::size_t i) const { return items[i]; }
  constexpr const T* begin() const { return items.data(); }
  constexpr const T* end() const { return items.data() + count; }
};

/// The name of an op, with room for the underscore of its in-place form.
struct ConstantName {
  std::array<char, 40> text{};
  std::size_t size = 0;

  template <std::size_t n>
  constexpr ConstantName(const char (&name)[n]) {
    for (const char c : std::string_view(name, n - 1)) text[size++] = c;
  }
  constexpr operator std::string_view() const { return {text.data(), size}; }
};

}  // namespace detail

/// The static description of an op. Define it as a constant beside the op's function:
///
///     constexpr OpDefinition index_select_op{.name = "index_select", .inputs = {"x", "index"},
///                                            .attributes = {{"dim", AttributeType::integer}},
///                                            .family = Family::indexing};
struct OpDefinition {
  /// The name in errors, on the ledger and for observers.
  detail::ConstantName name;
  /// The tensor inputs, in the order of the op's arguments. An optional input may be undefined. The last input may be a
  /// list.
  detail::ConstantList<std::string_view, 8> inputs{"x"};
  /// The tensors that the op returns. The last may be a list.
  detail::ConstantList<std::string_view, 4> outputs{"y"};
  /// The arguments that are not tensors, in order.
  detail::ConstantList<AttributeDefinition, 8> attributes{};
  /// The family of its kernels; none if the op calls other ops, is a view, or is defined outside the library.
  std::optional<Family> family{};
  OpKind kind = OpKind::kernel;
  AutocastClass autocast = AutocastClass::keep;
  /// The inputs that the op overwrites.
  detail::ConstantList<std::string_view, 4> writes{};
};

/// The definition of the in-place form of an op, such as relu_ of relu: the in-place op writes its first input and
/// keeps that input's dtype.
constexpr OpDefinition in_place(OpDefinition op) {
  op.name.text[op.name.size++] = '_';
  op.autocast = AutocastClass::keep;
  op.writes = {op.inputs[0]};
  return op;
}

const char* to_string(AutocastClass c);
const char* to_string(OpKind k);

}  // namespace bytetape
