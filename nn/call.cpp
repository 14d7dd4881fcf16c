// Module calls: the running module, its path, its inputs and its results.
#include "bytetape/nn/call.h"

#include <algorithm>
#include <mutex>
#include <typeinfo>
#include <utility>

#include "bytetape/autograd/checkpoint_frame.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/core/device/backend.h"
#include "bytetape/core/error.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/nn/class_name.h"
#include "bytetape/nn/module_hooks.h"

namespace bytetape::nn {
namespace {

using memory::ambient;
using memory::NameId;
using memory::Phase;

/// Returns the running module. Null also if it has no cell, because then nothing is registered with it.
const Module* running() {
  return ambient.running_module && *ambient.running_module ? static_cast<const Module*>(**ambient.running_module)
                                                           : nullptr;
}

Phase phase_of_call() { return ambient.scope.phase == Phase::setup ? Phase::forward : ambient.scope.phase; }

}  // namespace

Call::Call(const Module& module, Repeatable)
    : module_(module),
      caller_(ambient.running_module),
      scope_(ambient.scope.with(module.path_below(running()), ambient.scope.op, phase_of_call())),
      is_within_itself_(running() == &module) {
  ambient.running_module = &module.cell_;
  if (module.is_recomputing()) recompute_.emplace(true);
}

Call::Call(const Module& module) : Call(module, Repeatable{}) {
  check<NotImplemented>(!module.is_checkpointed() || is_within_itself_, module.describe(),
                        " is checkpointed, but the function that was called begins with nn::Call, which cannot run it "
                        "again: return nn::call(*this, body, inputs...) in its place");
}

Call::~Call() { ambient.running_module = caller_; }

std::vector<Tensor> Call::run_hooks(const bytetape::detail::ListFunction& body, std::vector<Tensor> inputs) const {
  return run_hooked(module_, module_.cell_, *module_.hooks_, body, std::move(inputs));
}

Tensor Module::operator()(const Tensor& x) {
  return call(
      *this, [this](const Tensor& input) { return forward(input); }, x);
}

NameId Module::path_below(const Module* caller) const {
  const NameId around = ambient.scope.module;
  if (caller == this) return around;
  const std::uint64_t place = place_.load(std::memory_order_relaxed);  // several threads may run one module
  auto path = static_cast<NameId>(place);
  bool from_above = false;  // whether the caller is an ancestor, for which place_ is valid
  for (const Module* m = parent_module(); !from_above && caller && m; m = m->parent_module()) from_above = m == caller;
  if (from_above && path != 0 && place >> 32 == around) return path;
  if (!parent_module()) {
    if (caller) caller->check_registered(*this);
    if (caller || around) return around;
    if (path == 0) place_.store(path = memory::root_path(class_name(typeid(*this))), std::memory_order_relaxed);
    return path;
  }
  std::vector<const ChildModule*> way;
  if (caller && caller->find_way(*this, way)) {
    path = around;
    for (; !way.empty(); way.pop_back()) path = way.back()->path_below(path);
  } else {
    path = memory::with_parent(path_, around);
  }
  if (from_above) place_.store(std::uint64_t{around} << 32 | path, std::memory_order_relaxed);
  return path;
}

// Finds the children that lead to `module`, the last one first. A shared module has a name in each parent, so a direct
// child is preferred.
bool Module::find_way(const Module& module, std::vector<const ChildModule*>& way) const {
  for (const bool directly : {true, false})
    for (const ChildModule& c : children_)
      if (directly ? &c.module() == &module : c.module().find_way(module, way)) {
        way.push_back(&c);
        return true;
      }
  return false;
}

bool Module::trains() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const auto& s) { return s->get().requires_grad(); }) ||
         std::any_of(children_.begin(), children_.end(), [](const ChildModule& c) { return c.module().trains(); });
}

// Whether the model has all trainable parameters of `module`. The model is the root module, whose parameters() an
// optimizer gets.
bool Module::is_tied_to_model(const Module& module) const {
  const Module* root = this;
  while (const Module* parent = root->parent_module()) root = parent;
  const NamedTensors known = root->named({Slot::Kind::parameter}), its = module.named({Slot::Kind::parameter});
  return std::all_of(its.begin(), its.end(), [&](const auto& p) {
    return !p.second.requires_grad() ||
           std::any_of(known.begin(), known.end(), [&](const auto& k) { return k.second.is_same(p.second); });
  });
}

void Module::check_registered(const Module& module) const {
  const bool registers = !slots_.empty() || !children_.empty();  // otherwise its parts may be registered elsewhere
  if (!registers || !grad_enabled() || !module.trains() || is_tied_to_model(module)) return;
  fail<ValueError>(describe(), " runs ", module.describe(),
                   ", which is registered with no module: parameters() leaves it out, so no optimizer trains it; "
                   "register it with register_module, or let it require no grad");
}

}  // namespace bytetape::nn

namespace bytetape::detail {
namespace {

/// Records tensors that have a block of the device. Skips undefined, evicted and pinned tensors, and memory from
/// outside.
void note_passed(memory::EventKind kind, std::span<const Tensor* const> tensors) {
  std::vector<memory::Allocator*> before;
  for (const Tensor* x : tensors) {
    if (!x->defined() || !x->storage().block() || x->storage().pinned()) continue;
    memory::Allocator& a = memory::allocator(x->device());
    a.note_passed(*x->storage().block(), kind,
                  static_cast<std::uint64_t>(std::count(before.begin(), before.end(), &a)));
    before.push_back(&a);
  }
}

}  // namespace

// Unregistered modules have no path of their own, and a recomputation is not another call. Neither is recorded.
RepeatableCall::RepeatableCall(const nn::Module& module)
    : nn::Call(module, Repeatable{}),
      is_checkpoint_(module.is_checkpointed() && !is_within_itself()),
      is_recorded_(memory::is_recording.load(std::memory_order_relaxed) && has_own_path() && !runs_again()) {}

void RepeatableCall::note_inputs(std::initializer_list<const Tensor*> inputs) const {
  note_passed(memory::EventKind::argument, {inputs.begin(), inputs.end()});
}

void RepeatableCall::note_results(const std::vector<Tensor>& results) const {
  std::vector<const Tensor*> all;
  for (const Tensor& x : results) all.push_back(&x);
  note_passed(memory::EventKind::result, all);
}

}  // namespace bytetape::detail
