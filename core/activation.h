#pragma once

namespace bytetape {

/// What an op makes of its result before it stores it, where the two are one kernel.
/// gelu_tanh is gelu(x, Approximate::tanh); of the ops linear alone applies it.
enum class Activation { none, relu, gelu_tanh };

}  // namespace bytetape
