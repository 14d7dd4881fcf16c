// Which module runs, and under which path.
#include <algorithm>

#include "bytetape/autograd/checkpoint.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/core/error.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {
namespace {

using memory::current_scope;
using memory::NameId;
using memory::Phase;
using memory::running_module;

/// The module that runs. Null also for one without a cell, with which nothing is registered that it could name.
const Module* running() {
  return running_module && *running_module ? static_cast<const Module*>(**running_module) : nullptr;
}

Phase phase_of_call() { return current_scope.phase == Phase::setup ? Phase::forward : current_scope.phase; }

}  // namespace

Call::Call(const Module& module)
    : caller_(running_module),
      scope_(current_scope.with(module.path_below(running()), current_scope.op, phase_of_call())) {
  running_module = &module.cell_;
}

Call::~Call() { running_module = caller_; }

Tensor Module::operator()(const Tensor& x) {
  const Call call(*this);
  if (!checkpointed_) return forward(x);
  return bytetape::checkpoint([this](const Tensor& input) { return forward(input); }, x);
}

NameId Module::path_below(const Module* caller) const {
  const NameId around = current_scope.module;
  if (caller == this) return around;
  const std::uint64_t place = place_.load(std::memory_order_relaxed);  // threads may run one module
  auto path = static_cast<NameId>(place);
  bool from_above = false;  // else it may be known by another name
  for (const Module* m = parent_module(); !from_above && caller && m; m = m->parent_module()) from_above = m == caller;
  if (from_above && path != 0 && place >> 32 == around) return path;
  if (!parent_module()) {
    if (caller) caller->check_registered(*this);
    return around;
  }
  const std::string name = caller ? caller->path_to(*this) : "";
  path = memory::join_path(around, name.empty() ? name_ : name);
  if (from_above) place_.store(std::uint64_t{around} << 32 | path, std::memory_order_relaxed);
  return path;
}

// A module that is shared has a name in each of its parents. Empty where it is not below this one.
std::string Module::path_to(const Module& module) const {
  for (const ChildModule& c : children_)
    if (&c.module() == &module) return c.place();
  for (const ChildModule& c : children_)
    if (const std::string rest = c.module().path_to(module); !rest.empty()) return c.place() + "." + rest;
  return "";
}

bool Module::trains() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const auto& s) { return s->get().requires_grad(); }) ||
         std::any_of(children_.begin(), children_.end(), [](const ChildModule& c) { return c.module().trains(); });
}

void Module::check_registered(const Module& module) const {
  const bool registers = !slots_.empty() || !children_.empty();  // else its parts may well be somebody else's
  if (!registers || !grad_enabled() || !module.trains()) return;
  fail<ValueError>(describe(), " runs ", module.describe(),
                   ", which is registered with no module: parameters() leaves it out, so no optimizer trains it; "
                   "register it with register_module, or let it require no grad");
}

}  // namespace bytetape::nn
