#pragma once
#include "bytetape/core/kernels/epilogue.h"
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/kernels/work.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// y (b, m, n) = activation(z), with z = a (b, m, k) @ b (b, k, n) + bias. bias is broadcast to y, or undefined. y may
/// be f32 if a and b are 16-bit.
struct MatmulArgs {
  ConstView a, b, bias;
  View y;
  Activation activation = Activation::none;
  View z = {};               // with an activation: z is stored here, in y's layout and dtype; may be undefined
  bool accumulates = false;  // y += a @ b instead, without a bias or an activation

  /// The tensor that holds z when the activation is applied.
  const View& before_activation() const { return z.defined() ? z : y; }
  /// A multiplication and an addition for each element of y and each of k.
  memory::Work flop() const { return product_work(a.dtype, y.numel() * a.shape[2]); }
  /// y is read too if it is added to.
  std::uint64_t moved_bytes() const {
    return detail::bytes_of_fields(*this) + (accumulates ? bytetape::moved_bytes(y) : 0);
  }
};

struct MatmulKernels {
  static constexpr Epilogues epilogues{Activation::relu, Activation::gelu_tanh};

  Planned<MatmulArgs> matmul;
  /// Whether the bits of y may differ from those of the activation's own kernel, applied to the stored z. Null: never.
  /// Only for products with an activation.
  bool (*approximates)(const MatmulArgs& args) = nullptr;
  /// Large products of 16-bit numbers are slow unless their dims are multiples of this number.
  std::int64_t multiple = 1;
};

}  // namespace bytetape
