#pragma once
#include <span>

#include "bytetape/core/view.h"

namespace bytetape {

struct CopyKernels {
  void (*fill)(Scalar value, const View& y);
  void (*copy)(const ConstView& x, const View& y);  // converts the dtype; shapes are equal
  // Copies pair by pair. Both tensors of a pair are row-major, of one floating dtype and size.
  void (*copy_all)(std::span<const ConstView> from, std::span<const View> to);
  // Converts 16-bit floats to f32, pair by pair. Both tensors of a pair are dense, and of one layout.
  void (*widen_all)(std::span<const ConstView> from, std::span<const View> to);
  void (*arange)(Scalar start, Scalar step, const View& y);
};

}  // namespace bytetape
