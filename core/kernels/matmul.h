#pragma once
#include "bytetape/core/kernels/epilogue.h"
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// y (b, m, n) = activation(z) with z = a (b, m, k) @ b (b, k, n) + bias, which may be undefined and else is broadcast
/// to y. y may be f32 where a and b have 16 bits.
struct MatmulArgs {
  ConstView a, b, bias;
  View y;
  Activation activation = Activation::none;
  View z = {};  // with an activation: where z is left, in y's layout and dtype; undefined where nobody wants it

  /// Where the activation finds z.
  const View& before_activation() const { return z.defined() ? z : y; }
};

struct MatmulKernels {
  static constexpr Epilogues epilogues{Activation::relu, Activation::gelu_tanh};

  Planned<MatmulArgs> matmul;
};

}  // namespace bytetape
