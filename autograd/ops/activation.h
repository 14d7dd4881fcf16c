#pragma once
#include "bytetape/autograd/op.h"
#include "bytetape/core/kernels/epilogue.h"

namespace bytetape {

/// What the rule of an activation needs: its input, or its result y.
inline bool saves_input(Activation activation) { return activation == Activation::gelu_tanh; }

/// Throws the ValueError of check_epilogue().
[[noreturn]] void fail_epilogue(Activation activation, Epilogues epilogues);
/// For an op of the family of these kernels. Throws ValueError if they cannot apply the activation.
template <class Kernels>
void check_epilogue(Activation activation) {
  if (!Kernels::epilogues.contains(activation)) [[unlikely]]
    fail_epilogue(activation, Kernels::epilogues);
}

/// gy as it comes through the activation, by ops that are differentiable, from what its rule needs.
Tensor through_activation(Activation activation, const Tensor& saved, const Tensor& gy);
/// For the rule of an op that applies an activation to its result and saves what that needs: the gradient of what the
/// activation was applied to, from gy, the result's. Lets go what was saved where the graph does not stay.
Tensor activation_grad(Activation activation, Saved& saved, const Tensor& gy, const InputGrads& gx);

/// Where the channels are, each of which has an element of the bias.
enum class Channels { last, channel_dim };
/// The same for an op whose input 2 is a bias, and whose result is row-major or a channels-last image: leaves the
/// bias's gradient, where it is asked for, in gx[2], in the bias's dtype. One kernel makes both where nothing is
/// recorded.
Tensor activation_and_bias_grad(Activation activation, Saved& saved, const Tensor& gy, InputGrads& gx,
                                Channels channels, DType bias_dtype);

}  // namespace bytetape
