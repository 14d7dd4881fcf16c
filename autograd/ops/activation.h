#pragma once
#include "bytetape/autograd/op.h"
#include "bytetape/core/activation.h"

namespace bytetape {

/// gy as it comes through the activation that made y, by ops that are differentiable.
Tensor through_activation(Activation activation, const Tensor& y, const Tensor& gy);
/// For the rule of an op that applies an activation to its result and saves that, y: the gradient of what the
/// activation was applied to, from gy, y's own. Lets y go where the graph does not stay.
Tensor activation_grad(Activation activation, Saved& y, const Tensor& gy, const InputGrads& gx);

/// Where the channels are, each of which has an element of the bias.
enum class Channels { last, of_image };
/// The same for an op whose input 2 is a bias, and whose y is row-major or a channels-last image: leaves the bias's
/// gradient, where it is asked for, in gx[2], in the bias's dtype. One kernel makes both where nothing is recorded.
Tensor activation_and_bias_grad(Activation activation, Saved& y, const Tensor& gy, InputGrads& gx, Channels channels,
                                DType bias_dtype);

}  // namespace bytetape
