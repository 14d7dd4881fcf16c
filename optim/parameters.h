#pragma once
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape {
class GradSink;
}

namespace bytetape::optim {

/// Returns the sinks of parameters whose other parts are in other processes (autograd/grad_sink.h), each once.
std::vector<GradSink*> sinks_of_parts(const std::vector<Tensor>& parameters);

/// Checks the parameters of an optimizer.
/// Throws ValueError if a tensor is listed twice, undefined, not a leaf or not dense, or two share memory.
/// Throws DTypeError if a tensor is not floating.
/// Throws DeviceError if devices differ.
void check_parameters(const std::vector<Tensor>& parameters);
/// Throws ValueError if a dist::Sharded has divided parameter number i, so that optimizers update its parts.
void check_not_divided(const Tensor& parameter, std::size_t i);
/// Throws ValueError if an assignment has replaced parameter number i in its module.
void check_in_place(const Tensor& parameter, std::size_t i);
/// Checks that the gradient of parameter number i is like the parameter.
/// Throws ShapeError, DTypeError or DeviceError.
void check_gradient(const Tensor& gradient, const Tensor& parameter, std::size_t i);

/// Returns an uninitialised tensor with the parameter's shape, dtype, device and layout. It has the role `optimizer
/// state` and is booked under the parameter's module.
/// Throws CaptureError if a step is being captured, because replays would allocate the state again.
Tensor new_state(const Tensor& parameter);
/// Checks that `parameter` matches the state that was made for it.
/// Throws ShapeError if its layout has changed.
/// Throws DTypeError if its dtype has changed.
/// Throws DeviceError if it was moved.
void check_state(const Tensor& state, const Tensor& parameter);

}  // namespace bytetape::optim
