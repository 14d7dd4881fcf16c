#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "bytetape/core/memory/ambient.h"
#include "bytetape/core/named_tensors.h"
#include "bytetape/nn/parameter.h"

/// Modules and layers.
namespace bytetape::nn {

class FusionRole;

/// Named tensors in order of registration, with PyTorch's names: "conv1.weight".
using NamedTensors = bytetape::NamedTensors;

/// An entry in a module's list of children.
struct ChildModule {
  std::string name;
  std::shared_ptr<Module> owned;  ///< null where the child is a member of the parent
  memory::ModuleCell cell;
  /// Throws ValueError where a member has ended.
  Module& module() const;
  /// Its part of the paths in errors and on the ledger: the name, behind a number also the class, as in "7 Linear".
  std::string place() const;
};

/// A part of a model: parameters, buffers, children, and what it makes of its inputs. Derive, register members in the
/// constructor:
///
///     struct Net : nn::Module {
///       nn::Linear fc1{784, 128}, fc2{128, 10};
///       nn::Parameter scale = register_parameter("scale", {1});
///       Net() { register_module("fc1", fc1), register_module("fc2", fc2); }
///       Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))) * scale; }
///     };
///
/// Not copyable. A module moves with its members; whoever registered it finds it in its new place.
class Module {
 public:
  Module() = default;
  Module(Module&& other) noexcept;
  Module& operator=(Module&&) = delete;
  virtual ~Module();

  /// What the module makes of x. Called through operator(), and by Sequential. A module of other inputs leaves it out,
  /// and returns nn::call(*this, body, inputs...) from the functions that it has (nn/call.h). Throws NotImplemented
  /// where it is left out.
  virtual Tensor forward(const Tensor& x);
  /// forward(x), as a call of the module.
  Tensor operator()(const Tensor& x);

  /// Every parameter of this module and below, each once. Like all that follow, throws ValueError where a child is gone
  /// that was registered as a member.
  std::vector<Tensor> parameters() const;
  /// The same with names. A tied parameter comes under its first name; with remove_duplicate = false under each.
  NamedTensors named_parameters(bool remove_duplicate = true) const;
  /// What is saved and moved but not trained, of this module and below; names as named_parameters() has them.
  NamedTensors named_buffers(bool remove_duplicate = true) const;
  /// This module ("") and everything below, with paths.
  std::vector<std::pair<std::string, Module*>> named_modules();
  /// The parameter, buffer or module of a path, such as "4.weight" or "layer1.0"; any name of a tied one. Throws
  /// ValueError if the module has none of that path.
  Tensor get_parameter(const std::string& path) const;
  Tensor get_buffer(const std::string& path) const;
  Module& get_submodule(const std::string& path);
  /// This module as the class that it is: `net[4].as<nn::Linear>().weight`. Throws ValueError if it is another.
  template <class M>
  M& as() {
    M* const module = dynamic_cast<M*>(this);
    if (!module) fail_as(typeid(M));
    return *module;
  }

  /// Training mode, or evaluation: Dropout and BatchNorm2d differ. On at start.
  Module& train(bool on = true);
  Module& eval() { return train(false); }
  bool is_training() const { return training_; }

  /// Whether each call of the module, where a graph is recorded, is a checkpoint(): what it makes is not kept for
  /// backward, but made again. Off at start. The module must then stay where it is until backward. A function that
  /// begins with nn::Call cannot be run again: it throws NotImplemented.
  Module& set_checkpointed(bool on = true);
  bool is_checkpointed() const { return checkpointed_; }

  /// Moves parameters, gradients and buffers in place: tensors held elsewhere (an optimizer's) follow. Throws
  /// DeviceError where there is no data to move (from a meta device), and leaves the model as it was.
  Module& to(Device device);
  /// Converts floating parameters, gradients and buffers in place. Throws DTypeError unless dtype is floating.
  Module& to(DType dtype);
  /// Both at once. Throws what either throws.
  Module& to(Device device, DType dtype);
  /// f(module) for everything below, then for this.
  Module& apply(const std::function<void(Module&)>& f);
  /// Forgets every gradient.
  void zero_grad();

  /// Parameters and buffers by name, a tied one under each of its names; they share the module's memory.
  NamedTensors state_dict() const;
  /// Copies values in. Throws ValueError naming every missing, unexpected and repeated key, on an undefined tensor and
  /// where a buffer is an expanded view, ShapeError on a misfit, before anything is written. Dtypes are converted;
  /// strict = false loads what is there.
  void load_state_dict(const NamedTensors& state, bool strict = true);

  /// "Linear(784, 10)", for the summary and for errors; by default the name of the class.
  virtual std::string describe() const;
  /// What the module is to Sequential, which runs a layer and the activation behind it as one op (nn/fusion.h). By
  /// default it runs alone.
  virtual FusionRole fusion_role() const;

 protected:
  /// Registers a new f32 parameter on default_device(), to be initialised, for a member nn::Parameter. Like all that
  /// follow, throws ValueError where the name is empty, has a '.' or is taken. `layout` gives its strides.
  Registration register_parameter(std::string name, const Shape& shape,
                                  Strides (*layout)(const Shape&) = contiguous_strides);
  /// Registers `value` as a parameter, and lets it require grad, unless it is another module's too: then it stays as it
  /// is. An undefined tensor takes the name alone (PyTorch's None), to be assigned later. Throws AutogradError where it
  /// is no leaf, DTypeError on integers.
  Registration register_parameter(std::string name, const Tensor& value);
  /// Registers a tensor that is saved and moved with the module but not trained, for a member nn::Buffer.
  Registration register_buffer(std::string name, const Tensor& value);
  /// Registers a member. It may move; where it ends before this module, what needs it throws ValueError.
  void register_module(std::string name, Module& child);
  /// Registers a child that this module owns. Throws ValueError where it is null.
  void register_module(std::string name, std::shared_ptr<Module> child);

  /// bytetape::to, which the module's own would hide from its member functions.
  static Tensor to(const Tensor& x, Device device);
  static Tensor to(const Tensor& x, DType dtype);
  static Tensor to(const Tensor& x, Device device, DType dtype);

 private:
  friend class Call;

  // Names here are chosen with care: they would hide a user's types, and ops, from the functions of modules.
  const memory::ModuleCell& cell();
  memory::NameId place_named(const char* kind, const std::string& name) const;
  void check_name(const std::string& name) const;
  Registration register_slot(Slot::Kind kind, std::string name, const Tensor& value);
  void adopt(ChildModule child);
  void rebook(memory::NameId around, const std::string& name);
  NamedTensors named(std::initializer_list<Slot::Kind> kinds) const;
  [[noreturn]] void fail_as(const std::type_info& wanted) const;
  void convert(const std::function<Tensor(const Tensor&)>& f);

  const Module* parent_module() const { return parent_ ? static_cast<const Module*>(*parent_) : nullptr; }
  bool trains() const;
  bool is_tied_to_model(const Module& module) const;
  std::string path_to(const Module& module) const;
  memory::NameId path_below(const Module* caller) const;
  void check_registered(const Module& module) const;

  std::vector<std::shared_ptr<Slot>> slots_;
  std::vector<ChildModule> children_;
  memory::ModuleCell cell_, parent_;             // the parent is the first that registered this
  std::string name_;                             // its place in that parent; empty for the root
  mutable std::atomic<std::uint64_t> place_{0};  // where one above last ran it: the path around it, and its own
  bool training_ = true, checkpointed_ = false;
};

/// Has the modules of these paths ("layer1.0", or as the ledger and memory::advise have it, "layer1.0 Block")
/// checkpointed, and no other of the model. Throws ValueError on a path that is none, before anything changes.
void checkpoint_modules(Module& model, const std::vector<std::string>& places);

/// A table of the modules with their parameters' shapes and counts, their bytes with the buffers', and the totals by
/// dtype and device.
std::string summary(Module& model);

}  // namespace bytetape::nn
