#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bytetape/core/memory/ambient.h"
#include "bytetape/nn/hooks.h"

namespace bytetape::nn {

/// The hooks of a module, in order of registration.
struct ModuleHooks {
  template <class Hook>
  using List = std::vector<std::pair<std::uint64_t, Hook>>;
  List<ForwardPreHook> forward_pre;
  List<ForwardHook> forward;
  List<BackwardHook> backward;

  bool empty() const { return forward_pre.empty() && forward.empty() && backward.empty(); }
};

/// Runs body(inputs) with the hooks of `module`. `cell` is the module's cell.
/// Throws ValueError if a hook changes the length of a list. Exceptions from hooks pass through.
std::vector<Tensor> run_hooked(const Module& module, const memory::ModuleCell& cell, ModuleHooks hooks,
                               const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body,
                               std::vector<Tensor> inputs);

}  // namespace bytetape::nn
