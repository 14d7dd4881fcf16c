#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "bytetape/nn/layers.h"
#include "bytetape/nn/module_list.h"

namespace bytetape::nn {

/// A function of a tensor, such as a lambda, that is not a module.
template <class T>
concept TensorFunction = std::is_invocable_r_v < Tensor,
        std::decay_t<T>
&, const Tensor& > &&!std::derived_from<std::decay_t<T>, Module>;

/// Runs modules one after the other; each has a forward(x) (torch.nn.Sequential).
///
/// The modules are named "0", "1", ... or as given to push_back. They are moved in, or passed as a std::shared_ptr. A
/// function becomes a Lambda:
///
///     nn::Sequential net(nn::Linear(784, 128), nn::ReLU(), [](const Tensor& x) { return x * 2; }, Block(128));
///     net.push_back("head", nn::Linear(128, 10));
///
/// Some neighbours run as one op: a Linear, Conv2d or BatchNorm and the ReLU behind it, a Linear or BatchNorm and a
/// tanh GELU, a ReLU behind a layer and the MaxPool2d behind that, a Dropout and the copy that a Flatten needs. On the
/// CPU, results are bit-identical to those of separate ops. The ledger attributes the op to the layer. Layers of your
/// own can take part (nn/fusion.h). A class derived from a layer runs its own forward.
///
/// A Sequential constructed from a single Sequential moves it and does not nest it.
class Sequential : public ModuleList<> {
 public:
  Sequential() = default;
  template <class... Parts>
  requires((ModuleOrPointer<Parts, Module> || TensorFunction<Parts>)&&...) explicit Sequential(Parts&&... parts) {
    (push_back(std::forward<Parts>(parts)), ...);
  }

  /// Appends a module or a function, named by its index. Throws as ModuleList::push_back().
  template <class Part>
  requires(ModuleOrPointer<Part, Module> || TensorFunction<Part>) Sequential& push_back(Part&& part) {
    if constexpr (TensorFunction<Part>)
      ModuleList::push_back(Lambda(std::forward<Part>(part)));
    else
      ModuleList::push_back(std::forward<Part>(part));
    return *this;
  }
  /// Appends a module under a name.
  template <ModuleOrPointer<Module> M>
  Sequential& push_back(std::string name, M&& module) {
    ModuleList::push_back(std::move(name), std::forward<M>(module));
    return *this;
  }
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "Sequential"; }
};

/// Runs model(input) in `segments` segments and checkpoints all but the last
/// (torch.utils.checkpoint.checkpoint_sequential).
///
/// Segments have the same number of layers; the last also has the remainder. A layer and an activation in different
/// segments run as two ops. The model must not be moved before backward.
///
/// Throws ValueError if `segments` is not from 1 to the number of layers.
Tensor checkpoint_sequential(Sequential& model, std::int64_t segments, const Tensor& input);

}  // namespace bytetape::nn
