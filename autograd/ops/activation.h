#pragma once
#include "bytetape/autograd/op.h"
#include "bytetape/core/activation.h"

namespace bytetape {

/// For the rule of an op that applies an activation to its result and saves that, y: the gradient of what the
/// activation was applied to, from gy, y's own. Lets y go where the graph does not stay.
Tensor activation_grad(Activation activation, Saved& y, const Tensor& gy, const InputGrads& gx);

}  // namespace bytetape
