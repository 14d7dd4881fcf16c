#include "bytetape/autograd/record.h"

#include <utility>

#include "bytetape/autograd/anomaly.h"
#include "bytetape/core/error.h"

namespace bytetape {

bool any_requires_grad(std::initializer_list<const Tensor*> inputs) {
  if (!grad_enabled()) return false;
  for (const Tensor* x : inputs)
    if (x->defined() && x->requires_grad()) return true;
  return false;
}

namespace detail {

void check_inputs(std::span<const Tensor* const> inputs) {
  for (const Tensor* x : inputs)
    if (x->defined() && x->impl()->rebased_seen != x->storage().rebased())
      fail<AutogradError>("an input, ", describe(*x), ", is a view taken before '",
                          memory::name_of(x->storage().writer()),
                          "' overwrote its base on the tape; take the view after the in-place op");
}

void connect(Node& node, const Tensor& output, std::span<const Tensor* const> inputs) {
  check_inputs(inputs);
  for (const Tensor* x : inputs) node.edges.push_back(gradient_edge(*x));
  add_output(node, output);
}

void add_output(Node& node, const Tensor& output) {
  autograd_meta(output).made_by = {Ref<Node>(&node), static_cast<std::uint32_t>(node.outputs.size())};
  node.outputs.push_back({output.shape(), output.dtype(), output.device()});
}

void check_anomaly(const Tensor& output) {
  if (detecting_anomaly()) [[unlikely]]
    throw_if_nan(output, "the result");
}

}  // namespace detail

void check_in_place(const Tensor& x, std::initializer_list<const Tensor*> others) {
  if (!grad_enabled()) return;
  const bool x_requires = x.requires_grad();
  bool records = x_requires;
  for (const Tensor* o : others) records = records || (o->defined() && o->requires_grad());
  if (!records) return;
  check<AutogradError>(!(x_requires && x.is_leaf()), "cannot write into a leaf that requires grad, ", describe(x),
                       "; do it under NoGrad");
  // A view shares its base's storage: its base would keep the old place on the tape.
  check<AutogradError>(x.impl()->is_view == false, "cannot write through a view on the tape, ", describe(x),
                       "; write out of place, or into the base");
  const Tensor* const self[] = {&x};
  detail::check_inputs(self);
}

}  // namespace bytetape
