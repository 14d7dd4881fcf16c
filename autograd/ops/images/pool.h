#pragma once
#include "bytetape/core/kernels/pool.h"
#include "bytetape/core/tensor.h"

namespace bytetape {

/// The maximum of each window of x (n, c, h, w), floating-point (torch.nn.functional.max_pool2d). NaN is propagated.
/// The stride defaults to the kernel's size. Padding is treated as -inf. `activation` is applied to the maxima: none or
/// relu. max_pool2d(relu(x)) is the same, but needs more memory. Saves one byte per output for backward, or four if a
/// window has more than 255 elements. Differentiable to any order.
/// Throws DTypeError if x is not floating-point.
/// Throws ShapeError if x is not 4-D, h or w is 0, or no window fits.
/// Throws ValueError if kernel or stride is not positive, or padding is negative or more than half the kernel.
Tensor max_pool2d(const Tensor& x, const Pool2dParams& params, Activation activation = Activation::none);
/// The mean of each window of x (n, c, h, w), floating-point (torch.nn.functional.avg_pool2d).
/// Padding counts as zeros, or is left out of the mean if count_include_pad is false. Windows and errors are those of
/// max_pool2d(). Saves nothing. Differentiable to any order.
Tensor avg_pool2d(const Tensor& x, const Pool2dParams& params, bool count_include_pad = true);
/// Pools x (n, c, h, w), floating-point, to (n, c, h', w') with output_size = (h', w'), larger or smaller.
/// Output i of m along a dim of size n is the mean of the inputs from floor(i n / m) to ceil((i + 1) n / m), exclusive
/// (torch.nn.functional.adaptive_avg_pool2d). Saves nothing. Differentiable to any order.
/// Throws DTypeError if x is not floating-point.
/// Throws ShapeError if x is not 4-D, or h or w is 0.
/// Throws ValueError if a size is not positive.
Tensor adaptive_avg_pool2d(const Tensor& x, Size2 output_size);

}  // namespace bytetape
