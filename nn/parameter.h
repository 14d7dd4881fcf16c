#pragma once
#include <concepts>
#include <memory>
#include <string>
#include <utility>

#include "bytetape/core/tensor.h"

namespace bytetape::nn {

class Module;
class Parameter;

/// A place in a module for one tensor, which the module and its member share. All that a module does with its tensors
/// goes through these.
class Slot {
 public:
  enum class Kind { parameter, buffer };
  /// `op` is what errors and the ledger call the place: "parameter 'weight' of Linear".
  Slot(Kind kind, std::string name, memory::NameId op);
  ~Slot();
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  Kind kind() const { return kind_; }
  const std::string& name() const { return name_; }
  /// What is in the place; undefined where nothing is.
  const Tensor& get();
  /// Puts x there, as Module::register_parameter and register_buffer say.
  void put(const Tensor& x);
  /// The module that the place belongs to, as the ledger calls it.
  memory::NameId module() const { return module_; }
  /// Renames it, and books what is there under the new name, but for a tensor that is booked under another place.
  void set_module(memory::NameId path);

 private:
  friend class Parameter;
  const Kind kind_;
  const std::string name_;
  const memory::NameId op_;
  memory::NameId module_;
  Tensor value_;
  Parameter* member_ = nullptr;  // shows the value as a member of the module
};

/// What registering gives, for the member that is to be the parameter. It is no Tensor: that would be a handle of its
/// own, and assigning to it would leave the module with the old parameter.
class Registration {
 private:
  friend class Module;
  friend class Parameter;
  explicit Registration(std::shared_ptr<Slot> slot) : slot_(std::move(slot)) {}
  std::shared_ptr<Slot> slot_;
};

/// A module's parameter as its member (torch.nn.Parameter): a Tensor, and the module's own place for it.
///
///     nn::Parameter weight = register_parameter("weight", {10, 784});
///
/// Assigning a tensor replaces the parameter, also for parameters(), state_dict() and whatever else the module does;
/// assigning another parameter ties the two; assigning an undefined tensor removes it, as None does in PyTorch. An
/// optimizer that was made before has the old one, and says so in step().
class Parameter : public Tensor {
 public:
  /// No parameter yet.
  Parameter() = default;
  Parameter(Registration r) { *this = std::move(r); }
  /// A plain handle to the tensor, as `Tensor w = layer.weight;`: no module's member, and assigning to it changes no
  /// module.
  Parameter(const Parameter& x) : Tensor(x), is_handle_(true) {}
  /// Takes over the place: modules move.
  Parameter(Parameter&& other) noexcept;
  ~Parameter();

  /// Becomes the member of that place.
  Parameter& operator=(Registration r);
  /// Throws what Module::register_parameter throws on the tensor, and ValueError where no module has registered this.
  Parameter& operator=(const Parameter& x) { return put(x); }
  /// What a swap of two would do is not told: assign one after the other.
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
  bool is_handle_ = false;  // a copy
};

/// The same for a tensor that is saved and moved with the module but not trained (torch.nn.Buffer).
using Buffer = Parameter;

}  // namespace bytetape::nn
