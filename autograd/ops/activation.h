#pragma once
#include "bytetape/autograd/op.h"
#include "bytetape/core/kernels/epilogue.h"

namespace bytetape {

/// Whether the activation's backward rule needs its input. If not, the rule needs its result y.
inline bool saves_input(Activation activation) { return activation == Activation::gelu_tanh; }

/// Throws the ValueError of check_epilogue(), which lists the activations in `epilogues`.
[[noreturn]] void fail_epilogue(Activation activation, Epilogues epilogues);
/// Throws ValueError if the kernels of the family `Kernels` cannot apply the activation in their epilogue.
template <class Kernels>
void check_epilogue(Activation activation) {
  if (!Kernels::epilogues.contains(activation)) [[unlikely]]
    fail_epilogue(activation, Kernels::epilogues);
}

/// Returns the result of an activation of which saves_input(). It is not recorded.
Tensor activated(Activation activation, const Tensor& x);
/// Returns the gradient of the activation's input, computed with differentiable ops. `saved` is the activation's input
/// if saves_input(), else its result.
Tensor through_activation(Activation activation, const Tensor& saved, const Tensor& gy);
/// Returns the gradient of the activation's input, for the rule of an op with an activation in its epilogue. gy is the
/// gradient of the op's result. Releases `saved` unless the graph is kept.
Tensor activation_grad(Activation activation, Saved& saved, const Tensor& gy, const InputGrads& gx);

/// The dim of gy that holds the channels: the last one, or dim 1 of an image. The bias has one element per channel.
enum class Channels { last, channel_dim };
/// Returns activation_grad(). If the bias needs its gradient, also puts that into gx[2] as `bias_dtype`. The bias must
/// be input 2 of the op. The op's result must be row-major or a channels-last image. One kernel computes both gradients
/// if nothing is recorded.
Tensor activation_and_bias_grad(Activation activation, Saved& saved, const Tensor& gy, InputGrads& gx,
                                Channels channels, DType bias_dtype);

}  // namespace bytetape
