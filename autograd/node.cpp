#include "bytetape/autograd/node.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "bytetape/autograd/ambient.h"
#include "bytetape/autograd/checkpoint_frame.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/grad_sink.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/record.h"
#include "bytetape/autograd/saved_tensor_hooks.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/core/dispatch.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape {
namespace {

// Returns g, or a copy, as the first gradient of a leaf. Only the leaf holds it. It has the leaf's strides if nothing
// is recorded.
Tensor own(const Tensor& g, const Tensor& leaf) {
  if (is_sole_owner(g) && (grad_enabled() || same_layout(g.shape(), g.strides(), leaf.strides()))) return g;
  if (grad_enabled()) return clone(g);
  Tensor mine = empty_like(leaf);
  run<&CopyKernels::copy>(g.device(), g.read(), mine.write());
  return mine;
}

}  // namespace

std::uint64_t next_sequence() {
  static std::atomic<std::uint64_t> counter{1};
  return counter.fetch_add(1, std::memory_order_relaxed);
}

InputGrads::InputGrads(const Node& node, std::vector<bool> unwanted, bool keeps_graph, bool widens_leaves,
                       Tensor addend, GradsSoFar* so_far)
    : node_(node),
      unwanted_(std::move(unwanted)),
      keeps_graph_(keeps_graph),
      widens_leaves_(widens_leaves),
      addend_(std::move(addend)),
      so_far_(so_far) {
  grads_.resize(node.edges.size());
}

bool InputGrads::needs(std::size_t i) const { return node_.needs(i) && !(i < unwanted_.size() && unwanted_[i]); }

bool InputGrads::may_stay_low(std::size_t i) const {
  return widens_leaves_ && needs(i) && node_.edges[i].node->takes_low();
}

Tensor InputGrads::so_far(std::size_t i, Operands operands) {
  if (!so_far_ || !needs(i) || leaf_lock_.owns_lock()) return {};
  GradSoFar found = so_far_->take(node_.edges[i], operands);
  if (!found.grad.defined()) return {};
  locked_leaf_ = std::move(found.owner);
  leaf_lock_ = std::move(found.lock);
  in_leaf_ = i;
  detail::add_overwritten(nullptr, found.grad);
  return found.grad;
}

Saved::Saved(Node* node) : node_(node), next_(node->saved_) { node->saved_ = this; }

void Saved::save(const Tensor& input) {
  release();
  if (!input.defined()) return;
  const detail::AutogradAmbient& ambient = detail::autograd_ambient;
  if (ambient.checkpoint && ambient.checkpoint->takes(*this, input)) return;
  if (recomputing())
    if (const AutogradMeta* meta = autograd_meta_if_any(input); meta && meta->made_by && meta->made_by.output == 0) {
      const Ref<Node>& maker = meta->made_by.node;
      if (maker->can_remake(input)) {
        maker_ = maker;
        return;
      }
    }
  if (ambient.saved_tensor_hooks && ambient.saved_tensor_hooks->takes(*this, input)) return;
  keep(input, input.storage().version());
}

void Saved::keep(const Tensor& x, std::uint32_t version) {
  tensor_ = x;
  storage_ = x.impl()->storage;
  version_ = version;
  storage_->hold_saved(node_);
}

void Saved::save_output(const Tensor& output, std::uint32_t index) {
  save(output.defined() ? output.alias(output.shape(), output.strides(), output.storage_offset()) : output);
  is_output_ = true;
  output_ = index;
}

static constexpr const char* already_freed =
    "the graph was already freed by an earlier backward; pass retain_graph = true to that one";

Tensor Saved::get() const {
  check<AutogradError>(!node_->released(), already_freed);
  bring_back();
  if (maker_) return remade();
  if (!tensor_.defined()) return tensor_;
  const Storage& s = *storage_;
  check<AutogradError>(&s == &tensor_.storage(), "a tensor saved for backward, ", describe(tensor_),
                       ", was moved or converted since; run backward first");
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

void Saved::bring_back() const {
  if (!placeholder_) return;
  const Ref<Node> alive = placeholder_;
  static_cast<detail::SavedPlaceholder&>(*alive).bring_back();
}

Tensor Saved::remade() const {
  Tensor y = maker_->remade();
  if (grad_enabled()) autograd_meta(y).made_by = {maker_, 0};
  return y;
}

bool Saved::is_intact() const {
  return placeholder_ || (tensor_.defined() && &tensor_.storage() == storage_.get() && storage_->version() == version_);
}

Tensor Node::remade() const {
  check<AutogradError>(!released(), already_freed);
  const memory::ScopeGuard guard(memory::ambient.scope.with(scope.module, scope.op, memory::ambient.scope.phase));
  return remake();
}

Tensor Saved::take(const InputGrads& gx) {
  Tensor x = get();
  if (!gx.keeps_graph()) release();
  return x;
}

bool Saved::is_sole_owner(const InputGrads& gx) const {
  bring_back();
  return tensor_.defined() && !gx.keeps_graph() && bytetape::is_sole_owner(tensor_, 2);  // owners: tensor_, storage_
}

void Saved::release() {
  maker_ = {};
  if (placeholder_) {
    static_cast<detail::SavedPlaceholder&>(*placeholder_).forget(*this);
    placeholder_ = {};
  }
  if (!tensor_.defined()) return;
  tensor_ = Tensor();
  const Ref<Storage> last = std::move(storage_);  // outlives tensor_, to see whether other tensors share it
  last->drop_saved(node_);
}

namespace detail {

void SavedPlaceholder::substitute(Saved& saved, const Tensor& x, std::uint32_t place) {
  const Edge made_by = gradient_edge(x);
  saved.placeholder_ = Ref<Node>(this);
  saved.place_ = place;
  saved.maker_ = made_by.node;
  saved.output_ = made_by.output;
}

void SavedPlaceholder::put_back(Saved& saved, const Tensor& x, std::uint32_t version) {
  Tensor connected = x.alias(x.shape(), x.strides(), x.storage_offset());
  if (saved.maker_) autograd_meta(connected).made_by = {std::exchange(saved.maker_, {}), saved.output_};
  saved.placeholder_ = {};
  saved.keep(connected, version);
}

}  // namespace detail

Node::Node() : scope(memory::ambient.scope) {}
Node::~Node() = default;

void Node::release() {
  released_ = true;
  edges.clear();
  for (Saved* s = saved_; s; s = s->next_) s->release();
}

void Node::dispose(Node* node) {
  constinit thread_local Node* waiting = nullptr;
  constinit thread_local bool ending = false;
  node->next_to_end_ = std::exchange(waiting, node);
  if (ending) return;
  ending = true;
  while (waiting) {
    Node* last = waiting;
    waiting = last->next_to_end_;
    delete last;  // destroys edges, which may call dispose() again
  }
  ending = false;
}

namespace {
/// Lets the captured step restore the leaf's gradient if the recording fails.
void note_touched_grad(const Tensor& leaf, const Tensor& found, bool adds) {
  detail::Capture& capture = *detail::core_ambient.capture;
  if (capture.touches_grad(leaf, found, adds)) capture.on_failure([leaf, found] { assign_grad(leaf, found); });
}
}  // namespace

AccumulateGrad::AccumulateGrad(const Tensor& leaf) : leaf_(leaf) {
  static const memory::NameId name = memory::intern("accumulate_grad");
  scope.op = name;
  scope.module = leaf.storage().module();
  sequence = next_sequence();
  outputs.push_back({leaf.shape(), leaf.dtype(), leaf.device()});
}

AccumulateGrad::~AccumulateGrad() {
  AutogradMeta& meta = autograd_meta(leaf_);
  const std::lock_guard lock(meta.lock);
  if (meta.accumulate == this) meta.accumulate = nullptr;
}

bool AccumulateGrad::fits_leaf() const {
  return leaf_.dtype() == outputs[0].dtype && leaf_.device() == outputs[0].device;
}

/// Whether the leaf fits and has no later accumulator, with a lock of its own, as after a conversion and back.
bool AccumulateGrad::is_current() const {
  AutogradMeta& meta = autograd_meta(leaf_);
  const std::lock_guard lock(meta.lock);
  return meta.accumulate == this && fits_leaf();
}

void AccumulateGrad::check_leaf() const {
  check<AutogradError>(is_current(), "a leaf, ", describe(leaf_),
                       ", was moved or converted since the forward pass, in which it was ", outputs[0].dtype,
                       outputs[0].shape, " on ", outputs[0].device, "; run backward first");
}

void AccumulateGrad::backward(const Grads& gy, InputGrads&) {
  if (!leaf_.requires_grad()) return;  // the leaf was frozen after the forward pass
  check_leaf();
  if (gy[0].defined() && goes_to_sink()) return autograd_meta(leaf_).sink->take(leaf_, gy[0]);
  accumulate(gy[0]);
  const std::vector<AutogradMeta::PostHook> hooks = autograd_meta(leaf_).post_hooks;  // a hook may remove itself
  for (const AutogradMeta::PostHook& h : hooks) h.call(leaf_);
  if (GradSink* const sink = autograd_meta(leaf_).sink) sink->added(leaf_);
}

bool AccumulateGrad::goes_to_sink() const {
  const AutogradMeta& meta = autograd_meta(leaf_);
  return meta.sink && meta.hooks.empty() && meta.post_hooks.empty() && !meta.grad.defined() && !grad_enabled();
}

bool AccumulateGrad::has_post_hooks() const { return !autograd_meta(leaf_).post_hooks.empty(); }

void AccumulateGrad::accumulate(const Tensor& g) {
  const std::lock_guard lock(adding_);
  Tensor& grad = autograd_meta(leaf_).grad;
  if (detail::core_ambient.capture) [[unlikely]]
    note_touched_grad(leaf_, grad, true);
  if (!g.defined()) return;
  if (!grad.defined())
    assign_grad(leaf_, own(g, leaf_));
  else if (grad_enabled())
    assign_grad(leaf_, grad + g);
  else
    add_(grad, g);
}

GradSoFar AccumulateGrad::so_far(Operands operands) {
  std::unique_lock lock(adding_, std::try_to_lock);
  if (!lock.owns_lock() || !leaf_.requires_grad() || !is_current() || !hooks_to_run().empty()) return {};
  const Tensor grad = autograd_meta(leaf_).grad;
  const OutputInfo& due = outputs[0];
  if (!grad.defined() || grad.dtype() != due.dtype || !(grad.shape() == due.shape) || grad.device() != due.device ||
      !grad.is_contiguous())
    return {};
  const auto is_read = [&](const Tensor* x) { return &x->storage() == &grad.storage(); };
  if (std::ranges::any_of(operands, is_read) || grad.storage().is_saved()) return {};
  return {grad, Ref<Node>(this), std::move(lock)};
}

const std::vector<Node::Hook>& AccumulateGrad::hooks_to_run() const { return autograd_meta(leaf_).hooks; }

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
  const std::lock_guard lock(meta->lock);
  const bool fits = meta->accumulate && meta->accumulate->fits_leaf();  // the lock keeps it from being deleted
  auto node = Ref<AccumulateGrad>::if_alive(fits ? meta->accumulate : nullptr);
  if (!node) {
    node = make_ref<AccumulateGrad>(x);
    meta->accumulate = node.get();
  }
  return {std::move(node), 0};
}

void assign_grad(const Tensor& x, const Tensor& g) {
  const Tensor before = std::exchange(autograd_meta(x).grad, g);
  if (detail::core_ambient.capture) [[unlikely]]
    note_touched_grad(x, before, false);
  const auto is_bucket = [](const Tensor& t) { return t.storage().role() == memory::Role::communication; };
  if (before.defined() && !before.is_same(g) && !is_sole_owner(before) && !is_bucket(before))
    before.storage().set_role(memory::Role::temporary);
  if (g.defined() && !is_bucket(g)) g.storage().set_role(memory::Role::gradient, x.storage().module());
}

bool is_sole_owner(const Tensor& x, std::uint32_t owners) {
  const bool spread = !x.impl()->is_view || (x.is_contiguous() && x.nbytes() == x.storage().bytes());
  const bool ours = x.storage().is_ours();  // memory from outside belongs to its owner
  return spread && ours && x.ref()->use_count() == 1 && x.storage().use_count() == owners;
}

}  // namespace bytetape
