// A copy is made by the copy constructors of the modules' classes. That of Module copies tensors and owned children. It
// prepares slots and cells, which the members of the derived class find when they are copied.
#include "bytetape/nn/clone.h"

#include <utility>

#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/core/error.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/nn/ambient.h"
#include "bytetape/nn/class_name.h"

namespace bytetape::detail {

Cloning::Cloning(const nn::Module& original, const std::type_info& copied_as) : outer_(nn_ambient.cloning) {
  check<ValueError>(typeid(original) == copied_as, "clone of a ", original.describe(), " as a ",
                    nn::class_name(copied_as), ", one of its base classes: pass it as its own class");
  nn_ambient.cloning = this;
}

Cloning::~Cloning() { nn_ambient.cloning = outer_; }

Tensor Cloning::copy_of(const Tensor& x) {
  if (!x.defined()) return {};
  Tensor& copy = tensors_[x.impl()];
  if (!copy.defined()) {
    const NoGrad no_grad;
    copy = clone(x);
    if (x.is_leaf() && x.requires_grad()) copy.set_requires_grad();
  }
  return copy;
}

std::shared_ptr<nn::Module> Cloning::copy_of(const nn::ChildModule& child) {
  const auto [at, is_new] = owned_.try_emplace(child.owned.get(), Owned{&child, child.owned.use_count(), nullptr});
  if (!is_new) return at->second.copy;
  auto copy = child.copy ? child.copy(*child.owned) : nullptr;
  check<NotImplemented>(copy != nullptr, "clone: the child '", child.name, "', ", child.owned->describe(),
                        ", cannot be copied: its class has no copy constructor, or it was registered as a "
                        "std::shared_ptr to a base class");
  return owned_.at(child.owned.get()).copy = std::move(copy);
}

memory::ModuleCell Cloning::copy_of(const memory::ModuleCell& cell) {
  memory::ModuleCell& copy = cells_[cell];
  if (!copy) copy = std::make_shared<void*>(nullptr);
  return copy;
}

void Cloning::add(const std::shared_ptr<nn::Slot>& original, const std::shared_ptr<nn::Slot>& copy) {
  slots_.emplace(original, copy);
}

std::shared_ptr<nn::Slot> Cloning::copy_of(const std::shared_ptr<nn::Slot>& slot) const {
  const auto at = slots_.find(slot);
  return at == slots_.end() ? nullptr : at->second;
}

void Cloning::finish(nn::Module& copy) const {
  for (const auto& [cell, copied] : cells_)
    check<ValueError>(!*cell || *copied, "clone: ", static_cast<const nn::Module*>(*cell)->describe(),
                      " is registered as a member, but is not a member of the module that was copied");
  for (const auto& [module, owned] : owned_)
    check<ValueError>(owned.child->owned.use_count() <= owned.owners, "clone: the child '", owned.child->name, "', ",
                      module->describe(),
                      ", is held by a std::shared_ptr member, which the copy would share: hold it by value, or in a "
                      "ModuleList");
  copy.become_root();
}

}  // namespace bytetape::detail

namespace bytetape::nn {

Module::Module(const Module& other)
    : training_(other.training_), checkpointed_(other.checkpointed_), recomputing_(other.recomputing_) {
  bytetape::detail::Cloning* const cloning = bytetape::detail::nn_ambient.cloning;
  check<ValueError>(cloning != nullptr, "a ", class_name(typeid(other)),
                    " is copied by its copy constructor: copy modules with nn::clone(module), or use a reference");
  if (other.cell_) *(cell_ = cloning->copy_of(other.cell_)) = this;
  if (cloning->has(other.parent_)) parent_ = cloning->copy_of(other.parent_);
  path_ = other.path_;
  for (const auto& slot : other.slots_) {
    slots_.push_back(slot->copy(cloning->copy_of(slot->get())));
    cloning->add(slot, slots_.back());
  }
  for (const ChildModule& c : other.children_) {
    const std::shared_ptr<Module> owned = c.owned ? cloning->copy_of(c) : nullptr;
    children_.push_back({c.name, owned, owned ? owned->cell() : cloning->copy_of(c.cell), c.copy});
  }
}

std::shared_ptr<Module> Module::copied_child_of(const Module& owned) {
  return bytetape::detail::nn_ambient.cloning->copied(owned);
}

// Makes this the parent of children whose first parent was not copied.
void Module::adopt_orphans() {
  for (const ChildModule& c : children_) {
    Module& child = c.module();
    if (!child.parent_module()) child.parent_ = cell_;
    child.adopt_orphans();
  }
}

void Module::become_root() {
  adopt_orphans();
  path_ = memory::ambient.scope.module;
  rebook(own_path());
}

}  // namespace bytetape::nn
