#include "bytetape/nn/module.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/core/default_device.h"
#include "bytetape/core/error.h"

namespace bytetape::nn {
namespace {

using memory::current_scope;
using memory::NameId;
using memory::Phase;
using memory::Role;

/// While it lives, `module` is the one that runs on this thread.
struct Running {
  static thread_local const Module* now;
  const Module* caller;
  explicit Running(const Module* module) : caller(std::exchange(now, module)) {}
  ~Running() { now = caller; }
};
thread_local const Module* Running::now = nullptr;

// The tensor keeps its identity, so that optimizers and members that hold it see the new data.
void replace_data(const Tensor& x, const Tensor& with) {
  TensorImpl& impl = *x.impl();
  const Role role = x.storage().role();
  const NameId module = x.storage().module();
  impl.storage = with.impl()->storage;
  impl.offset = with.storage_offset();
  impl.strides = with.strides();
  impl.dtype = with.dtype();
  x.storage().set_role(role, module);
}

}  // namespace

Module::Module(Module&& other)
    : name_(std::move(other.name_)),
      parameters_(std::move(other.parameters_)),
      buffers_(std::move(other.buffers_)),
      children_(std::move(other.children_)),
      training_(other.training_) {
  for (const Child& c : children_)
    if (!c.owned)
      fail<ValueError>("a module whose children are members cannot move ('", c.name,
                       "' would be left behind); hand it over as std::make_shared");
}

// A module that is shared has a name in each of its parents.
const std::string& Module::name_below(const Module* caller) const {
  if (caller)
    for (const Child& c : caller->children_)
      if (c.module == this) return c.name;
  return name_;
}

Tensor Module::operator()(const Tensor& x) {
  const Running running(this);
  const NameId parent = current_scope.module;
  std::uint64_t place = place_.load(std::memory_order_relaxed);  // threads may run one module
  auto path = static_cast<NameId>(place);
  if (path == 0 || place >> 32 != parent) {
    const std::string& name = name_below(running.caller);
    path = name.empty() ? parent : memory::join_path(parent, name);
    place_.store(std::uint64_t{parent} << 32 | path, std::memory_order_relaxed);
  }
  const Phase phase = current_scope.phase == Phase::setup ? Phase::forward : current_scope.phase;
  const memory::ScopeGuard scope({path, current_scope.op, phase});
  return forward(x);
}

void Module::check_name(const std::string& name) const {
  const auto taken = [&](const auto& list) {
    return std::any_of(list.begin(), list.end(), [&](const auto& p) { return p.first == name; });
  };
  check<ValueError>(!name.empty() && name.find('.') == std::string::npos,
                    "a name within a module is not empty and has no '.': '", name, "'");
  check<ValueError>(
      !taken(parameters_) && !taken(buffers_) &&
          std::none_of(children_.begin(), children_.end(), [&](const Child& c) { return c.name == name; }),
      "'", name, "' is registered twice");
}

Tensor Module::register_parameter(std::string name, const Shape& shape) {
  const memory::Op<"parameter"> op;
  return register_parameter(std::move(name), empty(shape, DType::f32, default_device()));
}

Tensor Module::register_parameter(std::string name, Tensor value) {
  check_name(name);
  check<ValueError>(value.defined(), "the parameter '", name, "' is an undefined tensor");
  value.set_requires_grad();
  value.storage().set_role(Role::parameter);
  return parameters_.emplace_back(std::move(name), std::move(value)).second;
}

Tensor Module::register_buffer(std::string name, Tensor value) {
  check_name(name);
  check<ValueError>(value.defined(), "the buffer '", name, "' is an undefined tensor");
  value.storage().set_role(Role::parameter);
  return buffers_.emplace_back(std::move(name), std::move(value)).second;
}

void Module::register_module(std::string name, Module& child) { adopt({std::move(name), nullptr, &child}); }

void Module::register_module(std::string name, std::shared_ptr<Module> child) {
  check<ValueError>(child != nullptr, "the module '", name, "' is null");
  Module* module = child.get();
  adopt({std::move(name), std::move(child), module});
}

void Module::adopt(Child child) {
  check_name(child.name);
  for (const auto& [path, module] : child.module->named_modules())
    check<ValueError>(module != this, "the module '", child.name, "' contains the one that it is registered with");
  child.module->name_ = child.name;
  // The books learn the longer path: "0" below "net" becomes "net.0". A scope that is open around it stays in front.
  const NameId around = current_scope.module;
  const NameId here = memory::join_path(around, child.name);
  const std::string prefix = around ? memory::name_of(around) + "." : "";
  for (const auto& [name, x] : child.module->state_dict()) {
    const NameId below = x.storage().module();
    const std::string path = memory::name_of(below);
    x.storage().set_role(x.storage().role(), below == around ? here
                                             : path.starts_with(prefix)
                                                 ? memory::join_path(here, path.substr(prefix.size()))
                                                 : memory::join_path(here, path));
  }
  children_.push_back(std::move(child));
}

void Module::collect(NamedTensors Module::*which, const std::string& prefix, NamedTensors& out) const {
  for (const auto& [name, x] : this->*which) out.emplace_back(prefix + name, x);
  for (const Child& c : children_) c.module->collect(which, prefix + c.name + ".", out);
}

NamedTensors Module::named_parameters() const {
  NamedTensors out;
  collect(&Module::parameters_, "", out);
  return out;
}

NamedTensors Module::named_buffers() const {
  NamedTensors out;
  collect(&Module::buffers_, "", out);
  return out;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> out;
  std::unordered_set<const TensorImpl*> seen;
  for (const auto& [name, x] : named_parameters())
    if (seen.insert(x.impl()).second) out.push_back(x);
  return out;
}

std::vector<std::pair<std::string, Module*>> Module::named_modules() {
  std::vector<std::pair<std::string, Module*>> out{{"", this}};
  for (const Child& c : children_)
    for (const auto& [path, module] : c.module->named_modules())
      out.emplace_back(path.empty() ? c.name : c.name + "." + path, module);
  return out;
}

Module& Module::train(bool on) {
  return apply([on](Module& m) { m.training_ = on; });
}

Module& Module::apply(const std::function<void(Module&)>& f) {
  for (const Child& c : children_) c.module->apply(f);
  f(*this);
  return *this;
}

void Module::convert(const std::function<Tensor(const Tensor&)>& f) {
  const NoGrad no_grad;
  struct Moved {
    Tensor x, data, grad;
  };
  std::vector<Moved> all;  // made before anything changes: whatever throws leaves the model as it was
  for (const auto& [name, x] : state_dict()) {
    const Tensor grad = x.grad();
    all.push_back({x, f(x), grad.defined() ? f(grad) : grad});
  }
  for (Moved& m : all) {
    m.x.set_grad({});
    replace_data(m.x, m.data);
    m.x.set_grad(m.grad);
  }
}

Module& Module::to(Device device) {
  convert([device](const Tensor& x) { return bytetape::to(x, device); });
  return *this;
}

Module& Module::to(DType dtype) {
  check<DTypeError>(is_floating(dtype), "a model's parameters are floating, not ", dtype);
  convert([dtype](const Tensor& x) { return is_floating(x.dtype()) ? bytetape::to(x, dtype) : x; });
  return *this;
}

void Module::zero_grad() {
  for (Tensor& x : parameters()) x.set_grad({});
}

NamedTensors Module::state_dict() const {
  // A module's own tensors come before its children's, parameters first, as in PyTorch.
  NamedTensors out;
  for (const auto* list : {&parameters_, &buffers_}) out.insert(out.end(), list->begin(), list->end());
  for (const Child& c : children_)
    for (const auto& [name, x] : c.module->state_dict()) out.emplace_back(c.name + "." + name, x);
  return out;
}

void Module::load_state_dict(const NamedTensors& state, bool strict) {
  const NamedTensors own = state_dict();
  const auto find = [](const NamedTensors& list, const std::string& name) {
    return std::find_if(list.begin(), list.end(), [&](const auto& p) { return p.first == name; });
  };
  std::string missing, unexpected;
  for (const auto& [name, x] : own)
    if (find(state, name) == state.end()) missing += (missing.empty() ? "" : ", ") + name;
  for (const auto& [name, x] : state) {
    const auto it = find(own, name);
    if (it == own.end())
      unexpected += (unexpected.empty() ? "" : ", ") + name;
    else
      check(x.defined() && x.shape() == it->second.shape(), "load_state_dict: '", name, "' is ",
            bytetape::describe(it->second), " in the model, but ", bytetape::describe(x), " in the state");
    if (it != own.end())
      check<DeviceError>(!x.device().is_meta || it->second.device().is_meta, "load_state_dict: '", name, "' is ",
                         bytetape::describe(x), " in the state, which holds no data");
  }
  check<ValueError>(!strict || (missing.empty() && unexpected.empty()), "load_state_dict: missing keys: [", missing,
                    "]; unexpected keys: [", unexpected, "]");
  const NoGrad no_grad;
  for (const auto& [name, x] : own)
    if (const auto it = find(state, name); it != state.end()) {
      Tensor target = x;
      copy_(target, it->second);
    }
}

}  // namespace bytetape::nn
