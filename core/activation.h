#pragma once

namespace bytetape {

/// The activation that an op applies in its epilogue.
/// gelu_tanh is gelu(x, Approximate::tanh). Families state which activations they support (core/kernels/epilogue.h).
enum class Activation { none, relu, gelu_tanh };

/// Every activation.
inline constexpr Activation all_activations[] = {Activation::none, Activation::relu, Activation::gelu_tanh};

constexpr const char* name_of(Activation activation) {
  switch (activation) {
    case Activation::none:
      return "none";
    case Activation::relu:
      return "relu";
    case Activation::gelu_tanh:
      return "gelu_tanh";
  }
  return "an unknown activation";
}

}  // namespace bytetape
