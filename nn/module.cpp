#include "bytetape/nn/module.h"

#include <algorithm>
#include <typeinfo>
#include <unordered_set>
#include <utility>

#include "bytetape/core/device/default_device.h"
#include "bytetape/core/error.h"
#include "bytetape/core/memory/ledger/root_path.h"
#include "bytetape/nn/class_name.h"
#include "bytetape/nn/fusion.h"
#include "bytetape/nn/module_path.h"

namespace bytetape::nn {

using memory::ModuleCell;
using memory::NameId;

Module::Module(Module&& other) noexcept
    : slots_(std::move(other.slots_)),
      children_(std::move(other.children_)),
      cell_(std::move(other.cell_)),
      parent_(std::move(other.parent_)),
      name_(std::move(other.name_)),
      training_(other.training_),
      checkpointed_(other.checkpointed_) {
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

std::string ChildModule::place() const {
  const bool is_number = name.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number) return name;
  const Module& child = module();
  return name + " " + class_name(typeid(child));
}

Tensor Module::forward(const Tensor&) {
  fail<NotImplemented>(describe(), " has no forward(x): call a function that it has, or override forward");
}

std::string Module::describe() const { return class_name(typeid(*this)); }
FusionRole Module::fusion_role() const { return {}; }

// What errors and the ledger call a place in this module: "parameter 'weight' of Linear".
NameId Module::place_named(const char* kind, const std::string& name) const {
  return memory::intern(detail::concat(kind, " '", name, "' of ", class_name(typeid(*this))));
}

void Module::check_name(const std::string& name) const {
  check<ValueError>(!name.empty() && name.find('.') == std::string::npos,
                    "a name within a module is not empty and has no '.'");
  check<ValueError>(
      std::none_of(slots_.begin(), slots_.end(), [&](const auto& s) { return s->name() == name; }) &&
          std::none_of(children_.begin(), children_.end(), [&](const ChildModule& c) { return c.name == name; }),
      "the name is registered twice");
}

Registration Module::register_slot(Slot::Kind kind, std::string name, const Tensor& value) {
  const NameId op = place_named(kind == Slot::Kind::parameter ? "parameter" : "buffer", name);
  const memory::OpScope scope(op);
  check_name(name);
  auto slot = std::make_shared<Slot>(kind, std::move(name), op);
  if (!memory::ambient.scope.module) slot->set_module(memory::root_path(class_name(typeid(*this))));  // until adopted
  slot->put(value);
  cell();  // Call finds the module that runs by it
  return Registration(slots_.emplace_back(std::move(slot)));
}

Registration Module::register_parameter(std::string name, const Shape& shape, Strides (*layout)(const Shape&)) {
  const memory::OpScope scope(place_named("parameter", name));
  numel(shape);  // first: of what it lets through strides do not overflow
  return register_parameter(std::move(name), empty_strided(shape, layout(shape), DType::f32, default_device()));
}

Registration Module::register_parameter(std::string name, const Tensor& value) {
  return register_slot(Slot::Kind::parameter, std::move(name), value);
}

Registration Module::register_buffer(std::string name, const Tensor& value) {
  return register_slot(Slot::Kind::buffer, std::move(name), value);
}

void Module::register_module(std::string name, Module& child) { adopt({std::move(name), nullptr, child.cell()}); }

void Module::register_module(std::string name, std::shared_ptr<Module> child) {
  check<ValueError>(child != nullptr, "the module '", name, "' is null");
  const ModuleCell& cell = child->cell();
  adopt({std::move(name), std::move(child), cell});
}

void Module::adopt(ChildModule child) {
  const memory::OpScope scope(place_named("module", child.name));
  check_name(child.name);
  Module& module = child.module();
  for (const auto& [path, below] : module.named_modules())
    check<ValueError>(below != this, "it contains the one that it is registered with");
  const ModuleCell& here = cell();  // also where the child is another's first: Call finds the one that runs by it
  if (!module.parent_module()) {
    module.parent_ = here;
    module.name_ = child.place();
    module.place_ = 0;
    std::string path = module.name_;  // below the module that runs, whose own the scope has, or below the root
    const auto runs = [](const Module& m) {
      return memory::ambient.running_module && *memory::ambient.running_module == m.cell_;
    };
    for (const Module* m = this; m->parent_module() && !runs(*m); m = m->parent_module()) path = m->name_ + "." + path;
    module.rebook(memory::ambient.scope.module, path);
  }
  children_.push_back(std::move(child));
}

// The books learn the longer path: "fc" below "net" becomes "net.fc". A scope that is open around it stays in front.
void Module::rebook(NameId around, const std::string& name) {
  const NameId here = memory::join_path(around, name);
  const std::string prefix = around ? memory::name_of(around) + "." : "";
  for (const auto& slot : slots_) {
    const std::string& path = memory::name_of(slot->module());
    slot->set_module(slot->module() == around || memory::is_root_path(path) ? here
                     : path.starts_with(prefix) ? memory::join_path(here, path.substr(prefix.size()))
                                                : memory::join_path(here, path));
  }
  for (const ChildModule& c : children_)
    if (c.module().parent_ == cell_) c.module().rebook(around, name);  // another parent's are booked below that one
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
  NamedTensors all = named({Slot::Kind::buffer});
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

/// The one of that path among `all`, which are what `module` has of a kind.
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
  cell();  // Call knows it by that
  checkpointed_ = on;
  return *this;
}

void checkpoint_modules(Module& model, const std::vector<std::string>& places) {
  std::vector<std::string> paths;
  for (const std::string& place : places) paths.push_back(path_without_classes(place));
  const auto modules = model.named_modules();
  const auto has = [](const auto& names, const std::string& name) {
    return std::any_of(names.begin(), names.end(), [&](const auto& n) { return n == name; });
  };
  std::vector<std::string> known;
  for (const auto& [path, module] : modules) known.push_back(path);
  for (const std::string& path : paths)
    check<ValueError>(has(known, path), "checkpoint_modules: ", model.describe(), " has no module '", path, "'");
  for (const auto& [path, module] : modules) module->set_checkpointed(false);
  for (const auto& [path, module] : modules)  // a shared one has several
    if (has(paths, path)) module->set_checkpointed();
}

Module& Module::train(bool on) {
  return apply([on](Module& m) { m.training_ = on; });
}

void Module::zero_grad() {
  for (Tensor& x : parameters()) x.set_grad({});
}

}  // namespace bytetape::nn
