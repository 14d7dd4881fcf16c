#pragma once
#include <cstddef>

#include "bytetape/core/view.h"

namespace bytetape {

/// y (b, m, n) = a (b, m, k) @ b (b, k, n) + bias, which may be undefined and else is broadcast to y.
struct MatmulKernels {
  std::size_t (*matmul_workspace)(const ConstView& a, const ConstView& b, const ConstView& bias, const View& y);
  void (*matmul)(const ConstView& a, const ConstView& b, const ConstView& bias, const View& y, Workspace ws);
};

}  // namespace bytetape
