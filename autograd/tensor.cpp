// The methods of Tensor that belong to autograd. backward() is in engine.cpp.
#include "bytetape/core/tensor.h"

#include <atomic>
#include <utility>

#include "bytetape/autograd/checkpoint_frame.h"
#include "bytetape/autograd/grad_sink.h"
#include "bytetape/autograd/node.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/view.h"

namespace bytetape {
namespace {

// Handles are unique across all nodes, because an in-place op moves a tensor to another node.
int next_hook_handle() {
  static std::atomic<int> next{0};
  return next++;
}

void check_assignable(const Tensor& x) {
  const bool is_shared = x.ref() && x.ref()->is_view && x.storage().use_count() > 1;
  check<ValueError>(is_shared, "assigned to a temporary that is not a view of a tensor: ", describe(x));
}

}  // namespace

bool Tensor::requires_grad() const {
  if (!defined()) return false;
  const AutogradMeta* meta = autograd_meta_if_any(*this);
  return meta && (meta->requires_grad || meta->made_by);
}

bool Tensor::is_leaf() const {
  self();
  const AutogradMeta* meta = autograd_meta_if_any(*this);
  return !meta || !meta->made_by;
}

Tensor& Tensor::set_requires_grad(bool on) {
  check<AutogradError>(is_leaf(), "requires_grad can only be set on a leaf; detach() ", describe(*this), " first");
  check<DTypeError>(!on || is_floating(dtype()), "only floating tensors can require grad, got ", describe(*this));
  if (on || impl_->autograd) autograd_meta(*this).requires_grad = on;
  return *this;
}

Tensor Tensor::grad() const {
  self();
  const AutogradMeta* meta = autograd_meta_if_any(*this);
  return meta ? meta->grad : Tensor();
}

void Tensor::set_grad(const Tensor& g) {
  self();
  if (!g.defined()) {
    if (impl_->autograd) assign_grad(*this, g);
    return;
  }
  check<ValueError>(!g.is_same(*this), "a tensor cannot be its own gradient");
  check(g.shape() == shape(), "a gradient, ", describe(g), ", must have the shape of its tensor, ", describe(*this));
  check<DTypeError>(g.dtype() == dtype() || detail::may_have_narrow_gradient(*this, g.dtype()), "a gradient, ",
                    describe(g), ", must have the dtype of its tensor, ", describe(*this));
  check<DeviceError>(g.device() == device(), "a gradient, ", describe(g), ", must be where its tensor is, ",
                     describe(*this));
  assign_grad(*this, g);
}

Tensor Tensor::detach() const {
  Tensor y = alias(shape(), strides(), storage_offset());
  y.impl()->is_view = true;
  y.impl()->rebased_seen = TensorImpl::unbound;
  return y;
}

Tensor Tensor::operator[](std::int64_t i) const { return select(*this, 0, i); }

void Tensor::operator=(const Tensor& y) && {
  check_assignable(*this);
  copy_(*this, y);
}
void Tensor::operator=(Scalar value) && {
  check_assignable(*this);
  fill_(*this, value);
}

int Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  check<ValueError>(static_cast<bool>(hook), "a hook must be callable");
  check<AutogradError>(requires_grad(), "a hook needs a tensor that requires grad, got ", describe(*this));
  AutogradMeta& meta = autograd_meta(*this);
  auto& hooks = meta.made_by ? meta.made_by.node->hooks : meta.hooks;
  const int handle = next_hook_handle();
  if (!detail::runs_again())  // the graph of the first run has the hook
    hooks.push_back({meta.made_by.output, handle, std::move(hook)});
  return handle;
}

int Tensor::register_post_accumulate_grad_hook(std::function<void(const Tensor&)> hook) const {
  check<ValueError>(static_cast<bool>(hook), "a hook must be callable");
  check<AutogradError>(requires_grad() && is_leaf(),
                       "a hook on accumulated gradients needs a leaf that requires grad, got ", describe(*this));
  const int handle = next_hook_handle();
  if (!detail::runs_again()) autograd_meta(*this).post_hooks.push_back({handle, std::move(hook)});
  return handle;
}

void Tensor::remove_hook(int handle) const {
  self();
  const auto remove = [&](auto& hooks) {
    return std::erase_if(hooks, [&](const auto& h) { return h.handle == handle; }) > 0;
  };
  AutogradMeta& meta = autograd_meta(*this);
  if (remove(meta.hooks) || remove(meta.post_hooks)) return;
  // An in-place op may have moved the tensor to a new node. Its earlier node is the first input of the new one.
  for (Node* node = meta.made_by.node.get(); node && !remove(node->hooks);)
    node = node->edges.empty() ? nullptr : node->edges[0].node.get();
}

}  // namespace bytetape
