#pragma once
#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "bytetape/autograd/ambient.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/node.h"

namespace bytetape {

/// Whether this thread records ops and a tensor requires grad. Undefined tensors are skipped.
/// Throws AutogradError if a tensor is a view whose base was overwritten by a later in-place op on the tape.
bool any_requires_grad(std::initializer_list<const Tensor*> inputs);

namespace detail {
/// Puts the node on the tape after the nodes that made its inputs.
void connect(Node& node, std::span<const Tensor* const> inputs);
/// Makes x the next output of the node. A tensor that is not floating-point is counted as an output, but has no
/// gradient.
void add_output(Node& node, const Tensor& x);
/// Counts a write to x, and invalidates views of x that are on the tape.
void add_overwritten(Node* node, const Tensor& x);
/// Tells the observers of ops (autograd/op_observer.h) that y is a result of the running op.
void observe_result(const Tensor& y);
inline void note_result(const Tensor& y) {
  if (autograd_ambient.op_observer) [[unlikely]]
    observe_result(y);
}
/// Throws AutogradError if x is a view that an in-place op on the tape has invalidated.
void check_view(const Tensor& x);
}  // namespace detail

/// Makes a node N before its outputs exist, for an op that may overwrite tensors that its rule needs. The first half of
/// recording.
/// `inputs` are in the order of N's gx. Returns null if nothing has to be recorded.
template <class N, class... Inputs>
Ref<N> prepare(const Inputs&... inputs) {
  if (!any_requires_grad({&inputs...})) return {};
  const Tensor* const list[] = {&inputs...};
  auto node = make_ref<N>();
  detail::connect(*node, list);
  return node;
}

/// Records an op with several outputs as a new node N. `outputs` are in the order of gy, `inputs` in the order of gx.
/// Integer outputs, such as indices, have no gradient. Returns the node, into which the op saves tensors, or null if
/// nothing has to be recorded.
template <class N, class... Inputs>
N* record_outputs(std::initializer_list<std::reference_wrapper<const Tensor>> outputs, const Inputs&... inputs) {
  for (const Tensor& y : outputs) detail::note_result(y);
  const Ref<N> node = prepare<N>(inputs...);
  if (!node) return nullptr;
  for (const Tensor& y : outputs) detail::add_output(*node, y);
  return node.get();
}

/// Records an op with one output as a new node N:
///
///     if (auto* node = record<ReluBackward>(y, x)) node->y.save_output(y);
template <class N, class... Inputs>
N* record(const Tensor& output, const Inputs&... inputs) {
  return record_outputs<N>({output}, inputs...);
}

/// Records an op of one output and a list of inputs.
template <class N>
N* record_list(const Tensor& output, std::span<const Tensor> inputs) {
  detail::note_result(output);
  std::vector<const Tensor*> list;
  bool any = false;
  for (const Tensor& x : inputs) {
    list.push_back(&x);
    any = any_requires_grad({&x}) || any;  // also checks each view
  }
  if (!any) return nullptr;
  const auto node = make_ref<N>();
  detail::connect(*node, list);
  detail::add_output(*node, output);
  return node.get();
}

/// Checks the arguments of an op that writes into x, before its kernel runs. `others` are its other inputs.
/// Throws AutogradError if x is a leaf that requires grad, or a view whose base would not see the write.
/// Throws ValueError if elements of x share memory with each other, or with other elements of an input.
void check_in_place(const Tensor& x, std::initializer_list<const Tensor*> others = {});
/// Records an op that has written into x: counts the write, and makes x the output of a new node N. Call it after the
/// kernel.
template <class N, class... Inputs>
N* record_in_place(const Tensor& x, const Inputs&... inputs) {
  const Ref<N> node = prepare<N>(inputs...);
  detail::add_overwritten(node.get(), x);
  return node.get();
}

}  // namespace bytetape
