#pragma once
#include "bytetape/core/kernels/pool.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// The largest element of each window of x (n, c, h, w), floating (torch.nn.functional.max_pool2d); NaN wins. The
/// stride defaults to the kernel's size. Padding counts as -inf and is at most half the kernel: ValueError; ShapeError
/// where no window fits. Keeps one byte an output for backward (four where the window has more than 256 elements).
/// Differentiable twice.
Tensor max_pool2d(const Tensor& x, const Pool2dParams& params);

}  // namespace bytetape
