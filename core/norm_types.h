#pragma once
#include "bytetape/core/visit.h"

namespace bytetape {

/// Calls f with values of two types: that of the tensor which is normalised, and that of y. They differ if an f32
/// residual was added to a 16-bit x (core/kernels/layer_norm.h).
template <class F>
void visit_norm_types(DType normalised, DType y, F&& f) {
  if (y == normalised) return visit_floating(y, [&](auto zero) { f(zero, zero); });
  if (y == DType::bf16)
    f(float{}, BFloat16{});
  else
    f(float{}, Half{});
}

}  // namespace bytetape
