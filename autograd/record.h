#pragma once
#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/node.h"

namespace bytetape {

/// True where this thread records and any of the tensors (undefined ones do not count) requires grad. Throws
/// AutogradError on a view taken before an in-place op on the tape overwrote its base.
bool any_requires_grad(std::initializer_list<const Tensor*> inputs);

namespace detail {
/// Gives the node its place on the tape, behind what made its inputs.
void connect(Node& node, std::span<const Tensor* const> inputs);
/// Makes x the next output of the node. One that is no floating tensor has a number, but no gradient.
void add_output(Node& node, const Tensor& x);
/// What follows a write into x: it is counted, and views of x that are on the tape must not be used any more.
void add_overwritten(Node* node, const Tensor& x);
void check_anomaly(const Tensor& output);
/// Throws AutogradError where x is a view that an in-place op on the tape left behind.
void check_view(const Tensor& x);
}  // namespace detail

/// The first half of recording, for an op that may write over what its rule needs: a new N that waits for its outputs,
/// made from `inputs` in the order of N's gx; null where nothing has to be recorded.
template <class N, class... Inputs>
Ref<N> prepare(const Inputs&... inputs) {
  if (!any_requires_grad({&inputs...})) return {};
  const Tensor* const list[] = {&inputs...};
  auto node = make_ref<N>();
  detail::connect(*node, list);
  return node;
}

/// Puts an op of several outputs on the tape: those of a new N, in the order of its gy, made from `inputs` in the order
/// of its gx. Integers among the outputs (indices) have no gradient. Returns the node, to be given what backward needs,
/// or null where nothing has to be recorded.
template <class N, class... Inputs>
N* record_outputs(std::initializer_list<std::reference_wrapper<const Tensor>> outputs, const Inputs&... inputs) {
  for (const Tensor& y : outputs) detail::check_anomaly(y);
  const Ref<N> node = prepare<N>(inputs...);
  if (!node) return nullptr;
  for (const Tensor& y : outputs) detail::add_output(*node, y);
  return node.get();
}

/// The same for the usual one output:
///
///     if (auto* node = record<ReluBackward>(y, x)) node->y.save_output(y);
template <class N, class... Inputs>
N* record(const Tensor& output, const Inputs&... inputs) {
  return record_outputs<N>({output}, inputs...);
}

/// The same for a list of inputs.
template <class N>
N* record_list(const Tensor& output, std::span<const Tensor> inputs) {
  detail::check_anomaly(output);
  std::vector<const Tensor*> list;
  bool any = false;
  for (const Tensor& x : inputs) {
    list.push_back(&x);
    any = any_requires_grad({&x}) || any;  // checks each one's view
  }
  if (!any) return nullptr;
  const auto node = make_ref<N>();
  detail::connect(*node, list);
  detail::add_output(*node, output);
  return node.get();
}

/// An op that writes into its first input: what must be checked before the kernel runs. Throws AutogradError on a leaf
/// that requires grad, and where x is a view whose base would not learn of it; ValueError where elements of x share
/// memory with each other, or with other elements of an input.
void check_in_place(const Tensor& x, std::initializer_list<const Tensor*> others = {});
/// What happens after such an op's kernel: the write is counted, and the tape is told (as `record`, where x is the
/// output).
template <class N, class... Inputs>
N* record_in_place(const Tensor& x, const Inputs&... inputs) {
  const Ref<N> node = prepare<N>(inputs...);
  detail::add_overwritten(node.get(), x);
  return node.get();
}

}  // namespace bytetape
