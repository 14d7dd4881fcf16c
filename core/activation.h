#pragma once

namespace bytetape {

/// The activation that an op applies in its epilogue.
/// gelu_tanh is gelu(x, Approximate::tanh). Of the ops only linear supports it.
enum class Activation { none, relu, gelu_tanh };

}  // namespace bytetape
