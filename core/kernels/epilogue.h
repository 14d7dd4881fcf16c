#pragma once
#include <initializer_list>
#include <iterator>

#include "bytetape/core/activation.h"

namespace bytetape {

/// The activations that ops can apply in their epilogue, that is, to their result before they store it. A family whose
/// kernels apply activations states its set once, in its header, for all backends and dtypes:
///
///     struct MatmulKernels {
///       static constexpr Epilogues epilogues{Activation::relu, Activation::gelu_tanh};
///
/// Its ops refuse all others, and its layers let nn::Sequential fuse no others. Activation::none is always in the set.
class Epilogues {
 public:
  constexpr Epilogues(std::initializer_list<Activation> activations = {}) {
    for (const Activation activation : activations) bits_ |= bit(activation);
  }
  constexpr bool contains(Activation activation) const { return (bits_ & bit(activation)) != 0; }

 private:
  /// 0 for a value that is no activation.
  static constexpr unsigned bit(Activation activation) {
    const auto value = static_cast<unsigned>(activation);
    return value < std::size(all_activations) ? 1u << value : 0;
  }

  unsigned bits_ = bit(Activation::none);
};

}  // namespace bytetape
