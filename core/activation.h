#pragma once

namespace bytetape {

/// The activation that an op applies to its result before it stores it, where the two are one kernel.
/// gelu_tanh is gelu(x, Approximate::tanh). `epilogues` of a kernel family are those that its ops can apply.
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
