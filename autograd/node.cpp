#include "bytetape/autograd/node.h"

#include <atomic>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/core/error.h"

namespace bytetape {
namespace {

std::uint64_t next_sequence() {
  static std::atomic<std::uint64_t> counter{1};
  return counter.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Saved::Saved(Node* node) : node_(node), next_(node->saved_) { node->saved_ = this; }

void Saved::save(const Tensor& input) {
  release();
  if (!input.defined()) return;
  tensor_ = input;
  version_ = input.storage().version();
  input.storage().hold_saved();
}

void Saved::save_output(const Tensor& output, std::uint32_t index) {
  save(output.defined() ? output.alias(output.shape(), output.strides(), output.storage_offset()) : output);
  is_output_ = true;
  output_ = index;
}

Tensor Saved::get() const {
  check<AutogradError>(!node_->released(),
                       "the graph was already freed by an earlier backward; pass retain_graph = true to that one");
  if (!tensor_.defined()) return tensor_;
  const Storage& s = tensor_.storage();
  if (s.version() != version_)
    fail<AutogradError>("a tensor saved for backward, ", describe(tensor_), ", was overwritten by '",
                        memory::name_of(s.writer()), "' (version ", s.version(), ", saved at ", version_,
                        "); clone it before writing, or write out of place");
  if (is_output_ && grad_enabled()) {
    Tensor connected = tensor_.alias(tensor_.shape(), tensor_.strides(), tensor_.storage_offset());
    autograd_meta(connected).made_by = {Ref<Node>(node_), output_};
    return connected;
  }
  return tensor_;
}

void Saved::release() {
  if (!tensor_.defined()) return;
  const Ref<Storage> storage = tensor_.impl()->storage;  // outlives the tensor, to see whether anybody else holds it
  tensor_ = Tensor();
  storage->drop_saved();
}

Node::Node() : scope(memory::current_scope), sequence(next_sequence()) {}
Node::~Node() = default;

void Node::release() {
  released_ = true;
  edges.clear();
  for (Saved* s = saved_; s; s = s->next_) s->release();
}

void Node::dispose(Node* node) {
  thread_local std::vector<Node*>* waiting = nullptr;
  if (waiting) {
    waiting->push_back(node);
    return;
  }
  std::vector<Node*> list{node};
  waiting = &list;
  while (!list.empty()) {
    Node* last = list.back();
    list.pop_back();
    delete last;  // drops its edges, which come back here and wait
  }
  waiting = nullptr;
}

AccumulateGrad::AccumulateGrad(const Tensor& leaf) : leaf_(leaf) {
  scope.module = leaf.storage().module();
  autograd_meta(leaf_).accumulate = this;
  outputs.push_back({leaf.shape(), leaf.dtype(), leaf.device()});
}

AccumulateGrad::~AccumulateGrad() { autograd_meta(leaf_).accumulate = nullptr; }

void AccumulateGrad::backward(const Grads& gy, Grads&) {
  AutogradMeta& meta = autograd_meta(leaf_);
  Tensor g = gy[0];
  for (const Hook& h : meta.hooks)
    if (Tensor replaced = h.call(g); replaced.defined()) g = replaced;
  if (!meta.grad.defined()) {
    // gy's own reference and `g` are two; a third owner, or another view, would be written through by the next +=.
    const bool alone = g.ref()->use_count() <= 2 && g.storage().use_count() == 1;
    if (!grad_enabled() && !(alone && g.strides() == leaf_.strides())) g = clone(g);
    meta.grad = g;
  } else if (grad_enabled()) {
    meta.grad = meta.grad + g;
  } else {
    add_(meta.grad, g);
  }
  meta.grad.storage().set_role(memory::Role::gradient, leaf_.storage().module());
}

AutogradMeta* autograd_meta_if_any(const Tensor& x) { return static_cast<AutogradMeta*>(x.impl()->autograd.get()); }

AutogradMeta& autograd_meta(const Tensor& x) {
  if (!x.impl()->autograd) x.impl()->autograd = std::make_unique<AutogradMeta>();
  return *autograd_meta_if_any(x);
}

Edge gradient_edge(const Tensor& x) {
  AutogradMeta* meta = x.defined() ? autograd_meta_if_any(x) : nullptr;
  if (!meta) return {};
  if (meta->made_by) return meta->made_by;
  if (!meta->requires_grad) return {};
  if (meta->accumulate) return {Ref<Node>(meta->accumulate), 0};
  return {Ref<Node>(new AccumulateGrad(x)), 0};
}

}  // namespace bytetape
