#include "bytetape/nn/module.h"

#include <algorithm>
#include <typeinfo>
#include <unordered_set>
#include <utility>

#include "bytetape/core/device/default_device.h"
#include "bytetape/core/error.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/nn/class_name.h"
#include "bytetape/nn/fusion.h"

namespace bytetape::nn {

using memory::ModuleCell;
using memory::NameId;

Module::Module(Module&& other) noexcept
    : slots_(std::move(other.slots_)),
      children_(std::move(other.children_)),
      hooks_(std::move(other.hooks_)),
      cell_(std::move(other.cell_)),
      parent_(std::move(other.parent_)),
      path_(other.path_),
      training_(other.training_),
      checkpointed_(other.checkpointed_),
      recomputing_(other.recomputing_) {
  if (cell_) *cell_ = this;
}

Module::~Module() {
  if (cell_) *cell_ = nullptr;
}

const ModuleCell& Module::cell() {
  if (!cell_) cell_ = std::make_shared<void*>(this);
  return cell_;
}

Module& ChildModule::module() const {
  if (owned) return *owned;
  check<ValueError>(*cell != nullptr, "the child '", name,
                    "' ended before the module that it is registered with; a std::shared_ptr would keep it");
  return *static_cast<Module*>(*cell);
}

NameId ChildModule::path_below(NameId parent) const {
  const bool is_number = name.find_first_not_of("0123456789") == std::string::npos;
  const Module& child = module();
  return memory::child_path(parent, name, is_number ? class_name(typeid(child)) : "");
}

Tensor Module::forward(const Tensor&) {
  fail<NotImplemented>(describe(), " has no forward(x): call a function that it has, or override forward");
}

std::string Module::describe() const { return class_name(typeid(*this)); }
FusionRole Module::fusion_role() const { return {}; }

// Returns the name of a member in errors and on the ledger, such as "parameter 'weight' of Linear".
NameId Module::place_named(const char* kind, const std::string& name) const {
  return memory::intern(detail::concat(kind, " '", name, "' of ", class_name(typeid(*this))));
}

void Module::check_name(const std::string& name) const {
  check<ValueError>(!name.empty() && name.find('.') == std::string::npos,
                    "a name within a module is not empty and has no '.'");
  const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  check<ValueError>(!name.starts_with("(root) ") && (digits == 0 || name[digits] != ' '),
                    "a name within a module must not be a number and a space, nor begin with '(root) ', got '", name,
                    "', which memory reports would show as a class");
  check<ValueError>(
      std::none_of(slots_.begin(), slots_.end(), [&](const auto& s) { return s->name() == name; }) &&
          std::none_of(children_.begin(), children_.end(), [&](const ChildModule& c) { return c.name == name; }),
      "the name is registered twice");
}

Registration Module::register_slot(Slot::Kind kind, std::string name, const Tensor& value) {
  const NameId op = place_named(kind == Slot::Kind::parameter ? "parameter" : "buffer", name);
  const memory::OpScope scope(op);
  check_name(name);
  auto slot = std::make_shared<Slot>(kind, std::move(name), op, own_path());
  slot->put(value);
  cell();  // Call identifies the running module by its cell
  return Registration(slots_.emplace_back(std::move(slot)));
}

Registration Module::register_parameter(std::string name, const Shape& shape, Strides (*layout)(const Shape&)) {
  const memory::OpScope scope(place_named("parameter", name));
  numel(shape);  // first, because it checks that strides cannot overflow
  return register_parameter(std::move(name), empty_strided(shape, layout(shape), DType::f32, default_device()));
}

Registration Module::register_parameter(std::string name, const Tensor& value) {
  return register_slot(Slot::Kind::parameter, std::move(name), value);
}

Registration Module::register_buffer(std::string name, const Tensor& value, bool persistent) {
  return register_slot(persistent ? Slot::Kind::buffer : Slot::Kind::unsaved_buffer, std::move(name), value);
}

void Module::register_module(std::string name, Module& child) { adopt({std::move(name), nullptr, child.cell()}); }

void Module::register_owned(std::string name, std::shared_ptr<Module> child,
                            std::shared_ptr<Module> (*copy)(const Module&)) {
  check<ValueError>(child != nullptr, "the module '", name, "' is null");
  const ModuleCell& cell = child->cell();
  adopt({std::move(name), std::move(child), cell, copy});
}

void Module::adopt(ChildModule child) {
  const memory::OpScope scope(place_named("module", child.name));
  check_name(child.name);
  Module& module = child.module();
  for (const auto& [path, below] : module.named_modules())
    check<ValueError>(below != this, "it contains the one that it is registered with");
  const ModuleCell& here = cell();  // also if the child has another parent: Call identifies a module by its cell
  if (!module.parent_module()) {
    module.parent_ = here;
    module.rebook(child.path_below(own_path()));
  }
  children_.push_back(std::move(child));
}

// Returns the path to which the ledger attributes the module's tensors.
NameId Module::own_path() const { return path_ ? path_ : memory::root_path(class_name(typeid(*this))); }

// Sets the path on the ledger, for example from "fc" to "net.fc" when "net" registers "fc".
void Module::rebook(NameId path) {
  path_ = path;
  place_ = 0;
  for (const auto& slot : slots_) slot->set_module(path);
  for (const ChildModule& c : children_)
    if (c.module().parent_ == cell_)
      c.module().rebook(c.path_below(path));  // children of another parent keep their path
}

NamedTensors Module::named(std::initializer_list<Slot::Kind> kinds) const {
  NamedTensors out;
  for (const Slot::Kind kind : kinds)
    for (const auto& slot : slots_)
      if (slot->kind() == kind && slot->get().defined()) out.emplace_back(slot->name(), slot->get());
  for (const ChildModule& c : children_)
    for (auto& [name, x] : c.module().named(kinds)) out.emplace_back(c.name + "." + name, std::move(x));
  return out;
}

static NamedTensors without_duplicates(NamedTensors all) {
  std::unordered_set<const TensorImpl*> seen;
  std::erase_if(all, [&](const auto& entry) { return !seen.insert(entry.second.impl()).second; });
  return all;
}
NamedTensors Module::named_parameters(bool remove_duplicate) const {
  NamedTensors all = named({Slot::Kind::parameter});
  return remove_duplicate ? without_duplicates(std::move(all)) : all;
}
NamedTensors Module::named_buffers(bool remove_duplicate) const {
  NamedTensors all = named({Slot::Kind::buffer, Slot::Kind::unsaved_buffer});
  return remove_duplicate ? without_duplicates(std::move(all)) : all;
}
NamedTensors Module::state_dict() const { return named({Slot::Kind::parameter, Slot::Kind::buffer}); }

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> out;
  for (auto& [name, x] : named_parameters()) out.push_back(std::move(x));
  return out;
}

std::vector<std::pair<std::string, Module*>> Module::named_modules() {
  std::vector<std::pair<std::string, Module*>> out{{"", this}};
  for (const ChildModule& c : children_)
    for (const auto& [path, module] : c.module().named_modules())
      out.emplace_back(path.empty() ? c.name : c.name + "." + path, module);
  return out;
}

/// Returns the entry with this path. `all` holds the entries of one kind of `module`.
template <class All>
static auto& find_named(All& all, const char* kind, const std::string& path, const Module& module) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& entry) { return entry.first == path; });
  check<ValueError>(found != all.end(), module.describe(), " has no ", kind, " '", path, "'");
  return found->second;
}
Tensor Module::get_parameter(const std::string& path) const {
  const NamedTensors all = named_parameters(/*remove_duplicate=*/false);
  return find_named(all, "parameter", path, *this);
}
Tensor Module::get_buffer(const std::string& path) const {
  const NamedTensors all = named_buffers(/*remove_duplicate=*/false);
  return find_named(all, "buffer", path, *this);
}
Module& Module::get_submodule(const std::string& path) {
  const auto all = named_modules();
  return *find_named(all, "module", path, *this);
}

void Module::fail_as(const std::type_info& wanted) const {
  fail<ValueError>("as<", class_name(wanted), ">() of ", describe(), ", a module of another class");
}

Module& Module::apply(const std::function<void(Module&)>& f) {
  for (const ChildModule& c : children_) c.module().apply(f);
  f(*this);
  return *this;
}

Module& Module::set_checkpointed(bool on) {
  cell();  // creates the cell, by which Call identifies the module
  checkpointed_ = on;
  return *this;
}

Module& Module::set_recomputing(bool on) {
  recomputing_ = on;
  return *this;
}

/// Calls set(module, on), where `on` says whether one of the module's paths is in `places`. `caller` is for errors.
static void set_at(Module& model, const char* caller, const std::vector<std::string>& places,
                   Module& (Module::*set)(bool)) {
  std::vector<std::string> paths;
  for (const std::string& place : places) paths.push_back(memory::plain_path(memory::intern(place)));
  const auto modules = model.named_modules();
  const auto has = [](const auto& names, const std::string& name) {
    return std::any_of(names.begin(), names.end(), [&](const auto& n) { return n == name; });
  };
  std::vector<std::string> known;
  for (const auto& [path, module] : modules) known.push_back(path);
  for (const std::string& path : paths)
    check<ValueError>(has(known, path), caller, ": ", model.describe(), " has no module '", path, "'");
  for (const auto& [path, module] : modules) (module->*set)(false);
  for (const auto& [path, module] : modules)  // a shared module has several paths
    if (has(paths, path)) (module->*set)(true);
}

void checkpoint_modules(Module& model, const std::vector<std::string>& places) {
  set_at(model, "checkpoint_modules", places, &Module::set_checkpointed);
}
void recompute_modules(Module& model, const std::vector<std::string>& places) {
  set_at(model, "recompute_modules", places, &Module::set_recomputing);
}

Module& Module::train(bool on) {
  return apply([on](Module& m) { m.training_ = on; });
}

void Module::zero_grad() {
  for (Tensor& x : parameters()) x.set_grad({});
}

}  // namespace bytetape::nn
