#pragma once
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape::optim {

/// Scales the gradients of `parameters`, in place, by min(1, max_norm / (norm + 1e-6)), where norm is the Euclidean
/// norm of all of them as one vector (torch.nn.utils.clip_grad_norm_ with norm_type 2). Parameters without a gradient
/// are passed over. Not recorded. With max_norm infinite a finite norm scales nothing.
///
///     loss.backward();
///     optim::clip_grad_norm_(model.parameters(), 1.0);
///     adam.step();
///
/// Returns the norm from before, a scalar where the gradients are, which the host does not wait for: f64 where a
/// gradient is, else f32; 0 where there are none. A norm that is not finite scales as it does in PyTorch: infinite, to
/// 0, or to NaN where max_norm is infinite too; NaN, to NaN. Nothing is scaled while a fault is pending on a device
/// (core/device/fault.h). Throws ValueError where max_norm is negative or NaN, a parameter is undefined, or a gradient
/// has gaps, repeats elements or shares memory with another; DeviceError where devices differ.
Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm);

/// Brings every element of the gradients of `parameters` into [-clip_value, clip_value], in place
/// (torch.nn.utils.clip_grad_value_); NaN stays. Parameters without a gradient are passed over. Not recorded. Nothing
/// is written while a fault is pending on a device. Throws ValueError where clip_value is negative or NaN, and what
/// clip_grad_norm_ throws of the rest.
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);

}  // namespace bytetape::optim
