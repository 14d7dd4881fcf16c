#include "bytetape/autograd/record.h"

#include "bytetape/autograd/ambient.h"
#include "bytetape/autograd/checkpoint_frame.h"
#include "bytetape/core/device/overlap.h"
#include "bytetape/core/error.h"

namespace bytetape {

namespace detail {

void check_view(const Tensor& x) {
  const std::uint32_t seen = x.impl()->rebased_seen;
  if (seen != x.storage().rebased() && seen != TensorImpl::unbound) [[unlikely]]
    fail<AutogradError>("an input, ", describe(x), ", is a view taken before '", memory::name_of(x.storage().writer()),
                        "' overwrote its base on the tape; take the view after the in-place op");
}

}  // namespace detail

namespace {

void check_no_overlap(const Tensor& x, std::initializer_list<const Tensor*> others) {
  check<ValueError>(!overlaps_itself(x), "cannot write into ", describe(x),
                    ", whose elements share memory (an expanded tensor); clone it first");
  for (const Tensor* o : others)
    check<ValueError>(!o->defined() || !overlaps(x, *o), "cannot write into ", describe(x), " while reading ",
                      describe(*o), ", which lies over it in memory; clone that first");
}

}  // namespace

bool any_requires_grad(std::initializer_list<const Tensor*> inputs) {
  if (!grad_enabled()) return false;
  bool any = false;
  for (const Tensor* x : inputs) {
    if (!x->defined()) continue;
    detail::check_view(*x);
    any = any || x->requires_grad();
  }
  return any;
}

namespace detail {

void connect(Node& node, std::span<const Tensor* const> inputs) {
  if (autograd_ambient.checkpoint) [[unlikely]]
    autograd_ambient.checkpoint->note_leaves(inputs);
  for (const Tensor* x : inputs) node.edges.push_back(gradient_edge(*x));
  node.sequence = next_sequence();  // after the accumulators that gradient_edge() created
}

void add_output(Node& node, const Tensor& x) {
  const auto number = static_cast<std::uint32_t>(node.outputs.size());
  node.outputs.push_back({x.shape(), x.dtype(), x.device()});
  if (is_floating(x.dtype())) autograd_meta(x).made_by = {Ref<Node>(&node), number};
}

void add_overwritten(Node* node, const Tensor& x) {
  x.storage().bump_version();
  note_result(x);
  if (!node) return;
  add_output(*node, x);
  x.storage().bump_rebased();
  x.impl()->rebased_seen = x.storage().rebased();
}

}  // namespace detail

void check_in_place(const Tensor& x, std::initializer_list<const Tensor*> others) {
  check_no_overlap(x, others);
  const bool x_requires = any_requires_grad({&x});
  bool records = x_requires;
  for (const Tensor* o : others) records = any_requires_grad({o}) || records;
  if (!records) return;
  check<AutogradError>(!(x_requires && x.is_leaf()), "cannot write into a leaf that requires grad, ", describe(x),
                       "; do it under NoGrad");
  // A view shares its base's storage. A base that still exists would keep its old node on the tape.
  check<AutogradError>(!x.impl()->is_view || x.storage().use_count() == 1, "cannot write through a view on the tape, ",
                       describe(x), "; write out of place, or into the base");
}

}  // namespace bytetape
