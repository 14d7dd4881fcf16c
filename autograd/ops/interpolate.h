#pragma once
#include "bytetape/core/images/scale2.h"
#include "bytetape/core/kernels/interpolate.h"
#include "bytetape/core/size2.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// As the arguments of torch.nn.functional.interpolate, in what order they come.
struct InterpolateOptions {
  Size2 size = 0;           ///< of the result; or else
  Scale2 scale_factor = 0;  ///< what x's size is multiplied by, rounded down
  InterpolationMode mode = InterpolationMode::nearest;
  bool align_corners = false;  ///< of bilinear: corner pixels keep their values
};

/// x (n, c, h, w), floating, -> (n, c, h', w') of the size or by the factor given (torch.nn.functional.interpolate).
/// nearest takes the pixel at floor(i h / h'), bilinear weighs the four around (i + 1/2) h / h' - 1/2, or around
/// i (h - 1) / (h' - 1) with align_corners; with a factor it is that, and not h / h', by which steps are taken, unless
/// the size stays or is doubled. Steps of nearest are f32's, as in PyTorch's kernels (of its two on the CPU, in the one
/// for channels-last and for small images). ValueError unless there is one of size and scale_factor, positive, or
/// with align_corners of nearest; ShapeError where nothing is left. Keeps nothing for backward. Differentiable twice
/// and more.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

}  // namespace bytetape
