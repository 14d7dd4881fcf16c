#pragma once
#include <type_traits>

#include "bytetape/core/dtype.h"
#include "bytetape/core/view.h"

// What rules of optimizers share.
namespace bytetape::cpu {

/// a + weight * (b - a). Starts from the nearer end, to round less (torch.lerp).
template <class C>
C lerp(C a, C b, C weight) {
  return weight < C(0.5) ? a + weight * (b - a) : b - (b - a) * (1 - weight);
}

/// Calls f(gradient), a pointer of its type. Parameters of type T have gradients of type T, or 16-bit ones if T is
/// float.
template <class T, class F>
void visit_gradient(const ConstView& gradient, F&& f) {
  if constexpr (std::is_same_v<T, float>) {
    if (gradient.dtype == DType::bf16) return f(gradient.as<BFloat16>());
    if (gradient.dtype == DType::f16) return f(gradient.as<Half>());
  }
  f(gradient.as<T>());
}

}  // namespace bytetape::cpu
