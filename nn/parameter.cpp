#include "bytetape/nn/parameter.h"

#include <utility>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/nn/ambient.h"
#include "bytetape/nn/clone.h"

namespace bytetape::nn {

using memory::Role;

Slot::Slot(Kind kind, std::string name, memory::NameId op, memory::NameId module)
    : kind_(kind), name_(std::move(name)), op_(op), module_(module) {}

Slot::~Slot() {
  if (value_.defined()) --value_.impl()->slots;
}

const Tensor& Slot::get() {
  // The member may have been assigned through a Tensor&, which bypasses Parameter's operator=.
  if (member_ && !member_->is_same(value_)) put(*member_);
  return value_;
}

void Slot::put(const Tensor& x) {
  Tensor next = x, last = value_;
  if (!next.is_same(last)) {
    const memory::OpScope scope(op_);
    const bool is_new = next.defined() && next.impl()->slots == 0;  // else its module and requires_grad are kept
    if (kind_ == Kind::parameter && next.defined()) {
      check<DTypeError>(is_floating(next.dtype()), "a parameter is floating, not ", describe(next));
      check<AutogradError>(next.is_leaf(), "a parameter is a leaf, and an op on the tape made ", describe(next),
                           "; assign its detach()");
      next.set_requires_grad(is_new || next.requires_grad());
    }
    if (last.defined() && --last.impl()->slots == 0) {
      last.impl()->replaced = true;
      last.storage().set_role(Role::temporary);
    }
    if (is_new) next.storage().set_role(Role::parameter, module_);
    if (next.defined()) {
      ++next.impl()->slots;
      next.impl()->replaced = false;
    }
    value_ = next;
  }
  if (member_) static_cast<Tensor&>(*member_) = next;
}

void Slot::set_module(memory::NameId path) {
  for (const Tensor& x : {value_, value_.defined() ? value_.grad() : Tensor()})
    if (x.defined() && x.storage().module() == module_) x.storage().set_role(x.storage().role(), path);
  module_ = path;
}

std::shared_ptr<Slot> Slot::copy(const Tensor& x) const {
  auto slot = std::make_shared<Slot>(kind_, name_, op_, module_);
  const bool requires_grad = x.defined() && x.requires_grad();
  slot->put(x);
  if (kind_ == Kind::parameter && x.defined()) Tensor(x).set_requires_grad(requires_grad);
  return slot;
}

Parameter::Parameter(const Parameter& x) : Tensor(x), is_handle_(true) {
  const bytetape::detail::Cloning* const cloning = bytetape::detail::nn_ambient.cloning;
  const auto slot = cloning ? cloning->copy_of(x.slot_) : nullptr;
  if (!slot) return;
  is_handle_ = false;
  *this = Registration(slot);
}

Parameter::Parameter(Parameter&& other) noexcept
    : Tensor(std::move(other)), slot_(std::move(other.slot_)), is_handle_(other.is_handle_) {
  if (slot_) slot_->member_ = this;
}

Parameter::~Parameter() { leave(); }

void Parameter::leave() {
  if (slot_) slot_->member_ = nullptr;
}

Parameter& Parameter::operator=(Registration r) {
  leave();
  slot_ = std::move(r.slot_);
  if (slot_->member_) slot_->member_->slot_.reset();
  slot_->member_ = this;
  static_cast<Tensor&>(*this) = slot_->value_;
  return *this;
}

Parameter& Parameter::put(const Tensor& x) {
  check<ValueError>(slot_ || is_handle_ || !x.defined(),
                    "no module has registered the parameter that is assigned to, so nothing would train ", describe(x),
                    ": bind the member first, as in weight = register_parameter(\"weight\", x)");
  if (slot_)
    slot_->put(x);
  else
    static_cast<Tensor&>(*this) = x;
  return *this;
}

}  // namespace bytetape::nn
