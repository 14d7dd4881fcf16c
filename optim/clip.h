#pragma once
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape::optim {

/// Scales the gradients of `parameters` in place so that their norm is at most `max_norm`
/// (torch.nn.utils.clip_grad_norm_).
///
/// The factor is min(1, max_norm / (norm + 1e-6)). norm is the Euclidean norm of all gradients as one vector.
/// Parameters without a gradient are skipped. If max_norm is infinite, gradients of finite norm do not change. An
/// infinite norm makes gradients 0, or NaN if max_norm is infinite too; a NaN norm makes them NaN (as in PyTorch).
/// Nothing is scaled while a fault is pending on a device (core/device/fault.h). Not recorded on the tape.
///
///     loss.backward();
///     optim::clip_grad_norm_(model.parameters(), 1.0);
///     adam.step();
///
/// Returns the norm before scaling: a scalar on the gradients' device, f64 if any gradient is, else f32. 0 if there are
/// no gradients. The host does not wait for it.
///
/// Throws ValueError if max_norm is negative or NaN, or a parameter is undefined.
/// Throws ValueError for the parts of a dist::Sharded, which has a clip_grad_norm_() of its own.
/// Throws ValueError if a gradient has gaps, repeats elements or shares memory with another.
/// Throws DeviceError if gradients are on different devices.
Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm);

/// Clamps each element of the gradients of `parameters` to [-clip_value, clip_value], in place
/// (torch.nn.utils.clip_grad_value_).
///
/// NaN stays NaN. Parameters without a gradient are skipped. Nothing is written while a fault is pending on a device.
/// Not recorded on the tape.
///
/// Throws ValueError if clip_value is negative or NaN.
/// Throws what clip_grad_norm_ throws for the parameters and gradients.
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);

}  // namespace bytetape::optim
