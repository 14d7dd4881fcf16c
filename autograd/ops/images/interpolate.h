#pragma once
#include <ostream>
#include <type_traits>

#include "bytetape/core/kernels/interpolate.h"
#include "bytetape/core/size2.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// Factors of (height, width). One number sets both.
struct Scale2 {
  double h = 0, w = 0;

  template <class N>
  requires std::is_arithmetic_v<N>
  constexpr Scale2(N both) : Scale2(static_cast<double>(both), static_cast<double>(both)) {}
  constexpr Scale2(double h, double w) : h(h), w(w) {}

  /// Element 0 is the height's factor, and 1 the width's, as in the order of dims.
  constexpr double operator[](int i) const { return i == 0 ? h : w; }

  friend bool operator==(const Scale2&, const Scale2&) = default;
  friend std::ostream& operator<<(std::ostream& out, Scale2 s) { return out << '(' << s.h << ", " << s.w << ')'; }
};

/// The arguments of torch.nn.functional.interpolate. Set either `size` or `scale_factor`.
struct InterpolateOptions {
  Size2 size = 0;           ///< (height, width) of the result
  Scale2 scale_factor = 0;  ///< factor of x's size, which is rounded down
  InterpolationMode mode = InterpolationMode::nearest;
  bool align_corners = false;  ///< bilinear only: corner pixels keep their values
};

/// Resizes images x (n, c, h, w), floating-point, to (n, c, h', w') (torch.nn.functional.interpolate).
/// For output index i, nearest takes the pixel at floor(i h / h'). bilinear weighs the four pixels around (i + 1/2) h /
/// h' - 1/2, or around i (h - 1) / (h' - 1) with align_corners. With a scale_factor, 1 / factor replaces h / h', unless
/// the size does not change, or nearest doubles it. nearest computes positions in f32, as PyTorch's kernels do (on the
/// CPU, as its kernel for channels-last and small images). Saves nothing. Differentiable to any order.
/// Throws ValueError unless exactly one of size and scale_factor is given and positive, or if nearest has
/// align_corners.
/// Throws DTypeError if x is not floating-point.
/// Throws ShapeError if x is not 4-D, or the result is empty.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

}  // namespace bytetape
