#pragma once
#include <concepts>
#include <initializer_list>
#include <optional>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// A number, or lists of numbers in braces, nested up to eight deep: the argument of tensor().
class NestedList {
 public:
  template <class T>
  requires std::integral<T> || std::floating_point<T> NestedList(T number)
      : dtype_(std::same_as<T, bool> ? DType::boolean
               : std::integral<T>    ? DType::i64
                                     : DType::f32),
        numbers_{number} {}
  /// Throws ShapeError if the items differ in shape.
  NestedList(std::initializer_list<NestedList> items);

  const Shape& shape() const { return shape_; }
  /// The dtype that holds all numbers: bool, i64, or f32 if one is floating-point or there are none.
  DType dtype() const { return dtype_; }
  /// All numbers, row-major.
  const std::vector<Scalar>& numbers() const { return numbers_; }

 private:
  Shape shape_;
  DType dtype_ = DType::f32;
  std::vector<Scalar> numbers_;
};

/// Makes a tensor of a number or of nested lists (torch.tensor):
///
///     Tensor x = tensor({{1.5, 2}, {3, 4}});  // f32(2, 2)
///
/// The default dtype is f32 if a number is floating-point, i64 for integers, and bool for bools.
/// Throws ShapeError if lists beside each other differ in shape.
/// Throws DTypeError if the dtype cannot represent a number.
Tensor tensor(const NestedList& list, std::optional<DType> dtype = {}, Device device = default_device(),
              memory::Role role = memory::Role::temporary);

}  // namespace bytetape
