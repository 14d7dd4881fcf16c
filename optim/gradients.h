#pragma once
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape::optim {

/// Returns the gradients of `parameters` that are defined and not empty, for a kernel that writes all of them.
/// Throws ValueError if a parameter is undefined.
/// Throws ValueError if a gradient has gaps, repeats elements or shares memory with another, as it would be written
/// twice.
/// Throws DeviceError if gradients are on different devices.
std::vector<Tensor> gradients_to_write(const std::vector<Tensor>& parameters);
/// Returns views of the gradients for a kernel that writes them.
std::vector<View> written_views(const std::vector<Tensor>& gradients);
/// Notes for the tape that a kernel wrote the gradients.
void note_writes(const std::vector<Tensor>& gradients);

}  // namespace bytetape::optim
