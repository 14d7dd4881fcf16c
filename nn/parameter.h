#pragma once
#include <concepts>
#include <memory>
#include <string>
#include <utility>

#include "bytetape/core/tensor.h"

namespace bytetape::nn {

class Module;
class Parameter;

/// Holds one named tensor of a module. The module and its member Parameter share the slot. Functions of Module access
/// tensors through slots.
class Slot {
 public:
  enum class Kind { parameter, buffer, unsaved_buffer };
  /// `op` is the name of the slot in errors and on the ledger, such as "parameter 'weight' of Linear".
  /// `module` is the path of the module that has it.
  Slot(Kind kind, std::string name, memory::NameId op, memory::NameId module);
  ~Slot();
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  Kind kind() const { return kind_; }
  const std::string& name() const { return name_; }
  /// Returns the tensor in the slot; undefined if the slot is empty.
  const Tensor& get();
  /// Puts x into the slot, with the conditions of Module::register_parameter and register_buffer.
  void put(const Tensor& x);
  /// Sets the module's path, and attributes the tensor and its gradient to it on the ledger. Tensors that the ledger
  /// attributes to another slot's module stay there.
  void set_module(memory::NameId path);
  /// Returns a slot like this one for x, the copy of its tensor, which keeps its requires_grad.
  std::shared_ptr<Slot> copy(const Tensor& x) const;

 private:
  friend class Parameter;
  const Kind kind_;
  const std::string name_;
  const memory::NameId op_;
  memory::NameId module_;
  Tensor value_;
  Parameter* member_ = nullptr;  // the module's member that shows the value
};

/// The result of registering a tensor, from which a member Parameter is assigned.
/// A Tensor would not do: assigning to that Tensor would not change the module's parameter.
class Registration {
 private:
  friend class Module;
  friend class Parameter;
  explicit Registration(std::shared_ptr<Slot> slot) : slot_(std::move(slot)) {}
  std::shared_ptr<Slot> slot_;
};

/// A parameter or buffer as a member of a module (torch.nn.Parameter): a Tensor, and the slot of the module that has
/// it.
///
///     nn::Parameter weight = register_parameter("weight", {10, 784});
///
/// Assigning a tensor replaces the parameter in the module, also for parameters() and state_dict(). Assigning another
/// parameter ties the two. Assigning an undefined tensor removes the parameter, as None does in PyTorch. An existing
/// optimizer still has the old parameter, and its step() then throws ValueError.
class Parameter : public Tensor {
 public:
  /// Makes an undefined parameter that is not registered.
  Parameter() = default;
  Parameter(Registration r) { *this = std::move(r); }
  /// Makes a plain handle to the tensor, as does `Tensor w = layer.weight;`. Assigning to the handle changes no module.
  /// Within nn::clone(), makes the copied module's member instead.
  Parameter(const Parameter& x);
  /// Takes over the slot, because modules can be moved.
  Parameter(Parameter&& other) noexcept;
  ~Parameter();

  /// Makes this the member of the registered slot.
  Parameter& operator=(Registration r);
  /// Replaces the parameter in its module by x.
  /// If this is a plain handle, only the handle changes.
  /// Throws ValueError if this is neither registered nor a handle, and x is defined.
  /// Throws what Module::register_parameter throws for x.
  Parameter& operator=(const Parameter& x) { return put(x); }
  /// Deleted, so std::swap does not compile. Assign one parameter after the other.
  template <std::same_as<Parameter> T>
  Parameter& operator=(T&& x) = delete;
  template <std::same_as<Tensor> T>  // a template, so that `= {}` is not ambiguous
  Parameter& operator=(const T& x) {
    return put(x);
  }

 private:
  friend class Slot;
  Parameter& put(const Tensor& x);
  void leave();
  std::shared_ptr<Slot> slot_;
  bool is_handle_ = false;  // made by the copy constructor
};

/// A buffer as a member of a module: saved and moved with the module but not trained (torch.nn.Buffer).
using Buffer = Parameter;

}  // namespace bytetape::nn
