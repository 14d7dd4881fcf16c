#pragma once
#include <cstdint>
#include <typeinfo>

#include "bytetape/core/kernels/epilogue.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

/// Describes how Sequential may fuse a module with its neighbours: a layer with the activation behind it, a maximum
/// with the activation before it, and a layer with the copy that a reshape behind it needs. A module states its role by
/// overriding fusion_role():
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
  /// As for_layer(). The result is also forward(activation(x)), because forward(x) chooses maxima.
  template <class Layer>
  static FusionRole for_maximum(const Layer& layer, Epilogues epilogues) {
    FusionRole role = for_layer(layer, epilogues);
    role.is_maximum_ = true;
    return role;
  }
  /// `layer` has a row_major(x), which returns forward(x) in row-major order.
  template <class Layer>
  static FusionRole for_row_major(const Layer& layer) {
    if (!is_exact(layer)) return {};
    FusionRole role(Activation::none, {}, [](Module& module, const Tensor& x, Activation) -> Tensor {
      return static_cast<Layer&>(module).row_major(x);
    });
    role.order_ = Order::makes_row_major;
    return role;
  }
  /// The module's forward(x) copies x unless x is row-major.
  template <class M>
  static FusionRole for_reshape(const M& module) {
    FusionRole role;
    if (is_exact(module)) role.order_ = Order::needs_row_major;
    return role;
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
  /// Whether the module can also apply an activation that comes before it.
  bool takes_before(Activation activation) const { return is_maximum_ && takes(activation); }
  /// Whether the module can prepare its result for `next`.
  bool reorders_for(const FusionRole& next) const {
    return order_ == Order::makes_row_major && next.order_ == Order::needs_row_major;
  }
  /// Returns activation(layer(x)), computed as one op. `layer` is the module whose role this is, and takes the
  /// activation. Or, with Activation::none, returns layer(x) in row-major order.
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

  enum class Order : std::uint8_t { any, makes_row_major, needs_row_major };

  Activation activation_ = Activation::none;
  Epilogues epilogues_;
  Run run_ = nullptr;
  bool is_maximum_ = false;
  Order order_ = Order::any;
};

}  // namespace bytetape::nn
