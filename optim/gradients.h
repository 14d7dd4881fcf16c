#pragma once
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape::optim {

/// The gradients of `parameters` that are there and not empty, for a kernel that writes all of them. Throws ValueError
/// where a parameter is undefined, or a gradient has gaps, repeats elements or shares memory with another, which would
/// be written twice; DeviceError where devices differ.
std::vector<Tensor> gradients_to_write(const std::vector<Tensor>& parameters);
/// The same for the kernel.
std::vector<View> written_views(const std::vector<Tensor>& gradients);
/// Tells the tape that the kernel wrote them.
void note_writes(const std::vector<Tensor>& gradients);

}  // namespace bytetape::optim
