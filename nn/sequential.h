#pragma once
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "bytetape/nn/module.h"

namespace bytetape::nn {

/// What a Sequential takes: a layer to be moved in, or a std::shared_ptr to a module.
template <class T>
concept LayerOrPointer = (std::is_base_of_v<Module, std::decay_t<T>> && !std::is_lvalue_reference_v<T>) ||
                         std::is_convertible_v<T, std::shared_ptr<Module>>;

/// Modules one after the other, named "0", "1", ... (torch.nn.Sequential). Layers are moved in; a module with members
/// of its own comes as a std::shared_ptr:
///
///     nn::Sequential net(nn::Linear(784, 128), nn::ReLU(), std::make_shared<Block>(128));
///
/// Of one Sequential alone a Sequential is made by moving it: it is not nested.
class Sequential : public Module {
 public:
  Sequential() = default;
  template <LayerOrPointer... Layers>
  explicit Sequential(Layers&&... layers) {
    (push_back(std::forward<Layers>(layers)), ...);
  }
  Sequential(Sequential&&) = default;

  /// Adds a layer behind the others. Throws ValueError on a null pointer.
  template <LayerOrPointer Layer>
  Sequential& push_back(Layer&& layer) {
    using L = std::decay_t<Layer>;
    if constexpr (std::is_base_of_v<Module, L>)
      return append(std::make_shared<L>(std::forward<Layer>(layer)));
    else
      return append(std::forward<Layer>(layer));
  }

  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return "Sequential"; }
  std::size_t size() const { return layers_.size(); }
  /// Throws std::out_of_range.
  Module& operator[](std::size_t i) { return *layers_.at(i); }

 private:
  Sequential& append(std::shared_ptr<Module> layer);
  std::vector<std::shared_ptr<Module>> layers_;
};

}  // namespace bytetape::nn
