#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape::nn {

class Module;
struct ModuleHooks;

/// A function that runs before the body of a module's call. Assigning to inputs[i] replaces an input.
/// The list has all inputs that the module passes to nn::call(). It must keep its length.
using ForwardPreHook = std::function<void(const Module& module, std::vector<Tensor>& inputs)>;
/// A function that runs after the body of a module's call. `inputs` are those that the body got. Assigning to
/// outputs[i] replaces an output. The list must keep its length.
using ForwardHook =
    std::function<void(const Module& module, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs)>;
/// A function that runs in backward, once the gradients of a call's inputs are known. Assigning to grad_inputs[i]
/// replaces the gradient of an input.
/// The lists have one entry for each input and output. An entry is undefined if the tensor requires no grad, or if its
/// gradient is zero because nothing used it. With create_graph, grad_inputs are on the tape, and grad_outputs are not.
using BackwardHook = std::function<void(const Module& module, std::vector<Tensor>& grad_inputs,
                                        const std::vector<Tensor>& grad_outputs)>;

/// Removes a hook (torch.utils.hooks.RemovableHandle). A hook stays if its handle is destroyed.
class HookHandle {
 public:
  HookHandle() = default;
  /// Removes the hook. Does nothing if it was removed, or if its module was destroyed.
  void remove();

 private:
  friend class Module;
  HookHandle(std::weak_ptr<ModuleHooks> hooks, std::uint64_t id) : hooks_(std::move(hooks)), id_(id) {}
  std::weak_ptr<ModuleHooks> hooks_;
  std::uint64_t id_ = 0;
};

}  // namespace bytetape::nn
