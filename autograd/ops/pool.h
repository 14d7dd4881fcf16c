#pragma once
#include "bytetape/core/kernels/pool.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// The largest element of each window of x (n, c, h, w), floating (torch.nn.functional.max_pool2d); NaN wins. The
/// stride defaults to the kernel's size. Padding counts as -inf and is at most half the kernel: ValueError; ShapeError
/// where no window fits. Keeps one byte an output for backward (four where the window has more than 256 elements).
/// Differentiable twice.
Tensor max_pool2d(const Tensor& x, const Pool2dParams& params);
/// The mean of each window of x (n, c, h, w), floating (torch.nn.functional.avg_pool2d). Padding counts as zeros, or
/// without count_include_pad not at all; windows and errors are those of max_pool2d. Keeps nothing for backward.
/// Differentiable twice and more.
Tensor avg_pool2d(const Tensor& x, const Pool2dParams& params, bool count_include_pad = true);
/// (n, c, h, w), floating, -> (n, c, h', w') with the h' x w' of output_size, larger or smaller: output i of m along a
/// dim of n is the mean of the inputs from floor(i n / m) up to ceil((i + 1) n / m)
/// (torch.nn.functional.adaptive_avg_pool2d). ValueError on a size that is not positive, ShapeError where h or w is 0.
/// Keeps nothing for backward. Differentiable twice and more.
Tensor adaptive_avg_pool2d(const Tensor& x, Size2 output_size);

}  // namespace bytetape
