#pragma once
#include <span>

#include "bytetape/core/view.h"

namespace bytetape {

struct CopyKernels {
  void (*fill)(Scalar value, const View& y);
  void (*copy)(const ConstView& x, const View& y);  // converts the dtype; same shape
  // f32 of 16-bit floats, pair by pair; the two of a pair are dense, in one layout
  void (*widen_all)(std::span<const ConstView> from, std::span<const View> to);
  void (*arange)(Scalar start, Scalar step, const View& y);
};

}  // namespace bytetape
