#pragma once
#include "bytetape/autograd/op.h"
#include "bytetape/core/kernels/epilogue.h"

namespace bytetape {

/// Whether the activation's rule needs its input. If not, it needs the result y.
inline bool saves_input(Activation activation) { return activation == Activation::gelu_tanh; }

/// Throws the ValueError of check_epilogue().
[[noreturn]] void fail_epilogue(Activation activation, Epilogues epilogues);
/// For an op of the family of these kernels. Throws ValueError if they cannot apply the activation.
template <class Kernels>
void check_epilogue(Activation activation) {
  if (!Kernels::epilogues.contains(activation)) [[unlikely]]
    fail_epilogue(activation, Kernels::epilogues);
}

/// Returns the gradient of the activation's input, made of differentiable ops. `saved` is the tensor that its rule
/// needs.
Tensor through_activation(Activation activation, const Tensor& saved, const Tensor& gy);
/// Returns the gradient of the activation's input, for the rule of an op with an activation in its epilogue. gy is the
/// gradient of the op's result. Releases `saved` unless the graph is kept.
Tensor activation_grad(Activation activation, Saved& saved, const Tensor& gy, const InputGrads& gx);

/// The dim of the channels. Each channel has one element of the bias.
enum class Channels { last, channel_dim };
/// Returns activation_grad(), and puts the bias's gradient, if it is needed, into gx[2] as `bias_dtype`.
/// The bias must be input 2 of the op, and the op's result row-major or a channels-last image. One kernel computes both
/// if nothing is recorded.
Tensor activation_and_bias_grad(Activation activation, Saved& saved, const Tensor& gy, InputGrads& gx,
                                Channels channels, DType bias_dtype);

}  // namespace bytetape
