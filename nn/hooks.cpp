// Backward hooks are run by two nodes of one call: the first has the inputs as outputs, the second the outputs. The
// second runs first in backward. It keeps the gradients of the outputs until the first has those of the inputs.
#include "bytetape/nn/hooks.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "bytetape/autograd/op.h"
#include "bytetape/core/error.h"
#include "bytetape/nn/module.h"
#include "bytetape/nn/module_hooks.h"

namespace bytetape::nn {
namespace {

/// The backward hooks of one call, and the gradients of its outputs until the hooks run.
struct BackwardCall {
  ModuleHooks::List<BackwardHook> hooks;
  memory::ModuleCell cell;
  std::size_t inputs = 0, outputs = 0;  // numbers of tensors, also of those that require no grad
  bool has_inputs = false;              // an input requires grad
  std::vector<Tensor> grad_outputs{};

  void run(std::vector<Tensor>& grad_inputs) {
    std::vector<Tensor> grads = std::exchange(grad_outputs, {});
    // A second derivative may pass the inputs alone. Hooks end with their module.
    if (grads.empty() || !*cell) return;
    const auto& module = *static_cast<const Module*>(*cell);
    for (const auto& [id, hook] : hooks) hook(module, grad_inputs, grads);
    check<ValueError>(grad_inputs.size() == inputs, "a backward hook of ", module.describe(), " returned ",
                      grad_inputs.size(), " gradients for ", inputs, " inputs");
  }
};

/// Passes gradients on from views of tensors to the tensors.
struct PassingNode : Node {
  std::shared_ptr<BackwardCall> call;
  std::vector<std::size_t> places;  // of the node's tensors, in the call's list
  bool takes_undefined() const final { return true; }
};
struct InputNode final : PassingNode {
  void backward(const Grads& gy, InputGrads& gx) override {
    std::vector<Tensor> grads(call->inputs);
    for (std::size_t i = 0; i < places.size(); ++i) grads[places[i]] = gy[i];
    call->run(grads);
    for (std::size_t i = 0; i < places.size(); ++i) gx[i] = grads[places[i]];
  }
};
struct OutputNode final : PassingNode {
  void backward(const Grads& gy, InputGrads& gx) override {
    call->grad_outputs.assign(call->outputs, {});
    for (std::size_t i = 0; i < places.size(); ++i) {
      gx[i] = gy[i];
      // Detached, because a graph that the call holds could hold the call.
      if (gy[i].defined()) call->grad_outputs[places[i]] = gy[i].detach();
    }
    std::vector<Tensor> none(call->inputs);
    if (!call->has_inputs) call->run(none);
  }
};

constexpr OpDefinition backward_hook_op{.name = "backward_hook", .inputs = {"xs"}, .kind = OpKind::view};

/// Replaces the tensors that require grad by views, which a node N made. Returns whether there are any.
template <class N>
bool pass_through(std::vector<Tensor>& tensors, const std::shared_ptr<BackwardCall>& call) {
  std::vector<std::size_t> places;
  std::vector<Tensor> from;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (any_requires_grad({&tensors[i]})) {
      places.push_back(i);
      from.push_back(tensors[i]);
    }
  if (from.empty()) return false;
  const Op<backward_hook_op> op(from);
  std::vector<const Tensor*> inputs;
  for (const Tensor& x : from) inputs.push_back(&x);
  const Ref<N> node = make_ref<N>();
  bytetape::detail::connect(*node, inputs);
  std::vector<Tensor> views;
  for (const std::size_t i : places) {
    const Tensor& x = tensors[i];
    const Tensor& y = views.emplace_back(x.alias(x.shape(), x.strides(), x.storage_offset()));
    y.impl()->is_view = true;
    bytetape::detail::add_output(*node, y);
    tensors[i] = y;
  }
  node->call = call;
  node->places = std::move(places);
  op.results(views);
  return true;
}

void check_length(const Module& module, const char* kind, const std::vector<Tensor>& list, std::size_t expected) {
  check<ValueError>(list.size() == expected, "a ", kind, " of ", module.describe(), " must keep the list of ", expected,
                    ", got one of ", list.size());
}

template <class Hook>
void remove_from(ModuleHooks::List<Hook>& list, std::uint64_t id) {
  std::erase_if(list, [&](const auto& entry) { return entry.first == id; });
}

}  // namespace

void HookHandle::remove() {
  const auto hooks = hooks_.lock();
  if (!hooks) return;
  remove_from(hooks->forward_pre, id_);
  remove_from(hooks->forward, id_);
  remove_from(hooks->backward, id_);
}

std::vector<Tensor> run_hooked(const Module& module, const memory::ModuleCell& cell, ModuleHooks hooks,
                               const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body,
                               std::vector<Tensor> inputs) {
  const std::size_t count = inputs.size();
  for (const auto& [id, hook] : hooks.forward_pre) {
    hook(module, inputs);
    check_length(module, "forward pre-hook", inputs, count);
  }
  std::shared_ptr<BackwardCall> backward;
  if (!hooks.backward.empty()) {
    backward =
        std::make_shared<BackwardCall>(BackwardCall{.hooks = std::move(hooks.backward), .cell = cell, .inputs = count});
    backward->has_inputs = pass_through<InputNode>(inputs, backward);
  }
  std::vector<Tensor> outputs = body(inputs);
  const std::size_t results = outputs.size();
  for (const auto& [id, hook] : hooks.forward) {
    hook(module, inputs, outputs);
    check_length(module, "forward hook", outputs, results);
  }
  if (backward) {
    backward->outputs = results;
    pass_through<OutputNode>(outputs, backward);
  }
  return outputs;
}

// ---- the functions of Module

template <class List, class Hook>
HookHandle Module::add_hook(List ModuleHooks::*list, Hook hook) {
  static std::atomic<std::uint64_t> last{0};
  check<ValueError>(static_cast<bool>(hook), "a hook of ", describe(), " must be callable");
  cell();  // creates the cell, by which Call identifies the module
  if (!hooks_) hooks_ = std::make_shared<ModuleHooks>();
  const std::uint64_t id = ++last;
  (hooks_.get()->*list).emplace_back(id, std::move(hook));
  return {hooks_, id};
}

HookHandle Module::register_forward_pre_hook(ForwardPreHook hook) {
  return add_hook(&ModuleHooks::forward_pre, std::move(hook));
}
HookHandle Module::register_forward_hook(ForwardHook hook) { return add_hook(&ModuleHooks::forward, std::move(hook)); }
HookHandle Module::register_full_backward_hook(BackwardHook hook) {
  return add_hook(&ModuleHooks::backward, std::move(hook));
}

bool Module::has_hooks() const { return hooks_ && !hooks_->empty(); }

}  // namespace bytetape::nn
