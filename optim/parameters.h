#pragma once
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape::optim {

/// Throws ValueError where a tensor comes twice, is undefined, not a leaf or not dense, DTypeError on integers, and
/// DeviceError where devices differ.
void check_parameters(const std::vector<Tensor>& parameters);
/// Throws ValueError where an assignment has put another tensor in the place of parameter number i in its module.
void check_in_place(const Tensor& parameter, std::size_t i);

/// An uninitialised tensor of a parameter's shape, dtype, device and layout, under the role `optimizer state`, booked
/// under the parameter's module. Throws CaptureError within a step that is being captured: it would be a replay's as
/// well.
Tensor new_state(const Tensor& parameter);
/// Throws where a parameter is no longer like the state that was made for it: it was moved, converted or resized.
void check_state(const Tensor& state, const Tensor& parameter);

}  // namespace bytetape::optim
