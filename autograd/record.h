#pragma once
#include <span>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/node.h"

namespace bytetape {

/// True where this thread records and any of the tensors (undefined ones do not count) requires grad. Throws
/// AutogradError on a view taken before an in-place op on the tape overwrote its base.
bool any_requires_grad(std::initializer_list<const Tensor*> inputs);

namespace detail {
void connect(Node& node, const Tensor& output, std::span<const Tensor* const> inputs);
void add_output(Node& node, const Tensor& output);
void check_anomaly(const Tensor& output);
/// Throws AutogradError where x is a view that an in-place op on the tape left behind.
void check_view(const Tensor& x);
}  // namespace detail

/// Puts an op on the tape: `output` of a new N, made from `inputs` in the order of N's gx. Returns the node, to be
/// given what backward needs, or null where nothing has to be recorded:
///
///     if (auto* node = record<ReluBackward>(y, x)) node->y.save_output(y);
template <class N, class... Inputs>
N* record(const Tensor& output, const Inputs&... inputs) {
  const Tensor* const list[] = {&inputs...};
  detail::check_anomaly(output);
  if (!any_requires_grad({&inputs...})) return nullptr;
  auto node = make_ref<N>();
  detail::connect(*node, output, list);
  return node.get();
}

/// The same for a list of inputs.
template <class N>
N* record_list(const Tensor& output, std::span<const Tensor> inputs) {
  std::vector<const Tensor*> list;
  for (const Tensor& x : inputs) list.push_back(&x);
  detail::check_anomaly(output);
  bool any = false;
  for (const Tensor* x : list) any = any_requires_grad({x}) || any;  // checks each one's view
  if (!any) return nullptr;
  auto node = make_ref<N>();
  detail::connect(*node, output, list);
  return node.get();
}

/// An op that writes into its first input: what must be checked before the kernel runs. Throws AutogradError on a leaf
/// that requires grad, and where x is a view whose base would not learn of it; ValueError where elements of x share
/// memory with each other, or with other elements of an input.
void check_in_place(const Tensor& x, std::initializer_list<const Tensor*> others = {});
/// What happens after such an op's kernel: the write is counted, and the tape is told (as `record`, where x is the
/// output).
template <class N, class... Inputs>
N* record_in_place(Tensor& x, const Inputs&... inputs) {
  x.storage().bump_version();
  const Tensor* const list[] = {&inputs...};
  detail::check_anomaly(x);
  if (!any_requires_grad({&inputs...})) return nullptr;
  auto node = make_ref<N>();
  detail::connect(*node, x, list);
  x.storage().bump_rebased();
  x.impl()->rebased_seen = x.storage().rebased();
  return node.get();
}

}  // namespace bytetape
