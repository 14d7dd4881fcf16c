#pragma once
#include <concepts>

#include "bytetape/core/scalar.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// An argument of an elementwise op: a tensor, or a number, which takes the other operand's dtype.
/// Holds a pointer to the tensor, which must outlive the Operand. Use it for arguments only.
class Operand {
 public:
  Operand(const Tensor& x) : tensor_(&x) {}
  template <class T>
  requires std::constructible_from<Scalar, T> Operand(T number) : number_(number) {}

  bool is_number() const { return tensor_ == nullptr; }
  /// The tensor; undefined if it is a number.
  const Tensor& tensor() const {
    static const Tensor none;
    return tensor_ ? *tensor_ : none;
  }
  Scalar number() const { return number_; }

 private:
  const Tensor* tensor_ = nullptr;
  Scalar number_ = 0;
};

}  // namespace bytetape
