#pragma once
#include <typeinfo>

#include "bytetape/core/kernels/epilogue.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

/// Describes how Sequential may fuse a module. Sequential runs a layer and the activation behind it as one op. A module
/// states its role by overriding fusion_role():
///
///     FusionRole fusion_role() const override { return FusionRole::for_layer(*this, MatmulKernels::epilogues); }
///
/// The role holds for objects of exactly that class. A derived class may have its own forward, so its objects run
/// alone, unless it overrides fusion_role() as well. A module with hooks runs alone too.
class FusionRole {
 public:
  /// The module runs alone.
  FusionRole() = default;

  /// `layer` has an operator()(x, activation), which returns activation(forward(x)) for all of these activations.
  template <class Layer>
  static FusionRole for_layer(const Layer& layer, Epilogues epilogues) {
    if (!is_exact(layer)) return {};
    return {Activation::none, epilogues, [](Module& module, const Tensor& x, Activation activation) -> Tensor {
              return static_cast<Layer&>(module)(x, activation);
            }};
  }
  /// The module's forward(x) is `activation` of x, and nothing else.
  template <class M>
  static FusionRole for_activation(const M& module, Activation activation) {
    return {is_exact(module) ? activation : Activation::none, {}, nullptr};
  }

  /// Activation::none unless the module is an activation.
  Activation activation() const { return activation_; }
  /// Whether the module is a layer that can apply this activation. False for Activation::none.
  bool takes(Activation activation) const {
    return run_ && activation != Activation::none && epilogues_.contains(activation);
  }
  /// Returns activation(layer(x)), computed as one op. `layer` is the module whose role this is, and takes the
  /// activation.
  Tensor run(Module& layer, const Tensor& x, Activation activation) const { return run_(layer, x, activation); }

 private:
  using Run = Tensor (*)(Module& layer, const Tensor& x, Activation activation);
  FusionRole(Activation activation, Epilogues epilogues, Run run)
      : activation_(activation), epilogues_(epilogues), run_(run) {}

  /// Whether the module's class is the one that states the role, and it has no hooks. C++ cannot say whether a derived
  /// class overrides forward.
  template <class M>
  static bool is_exact(const M& module) {
    return typeid(module) == typeid(M) && !module.has_hooks();
  }

  Activation activation_ = Activation::none;
  Epilogues epilogues_;
  Run run_ = nullptr;
};

}  // namespace bytetape::nn
