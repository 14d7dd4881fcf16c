#pragma once
#include <atomic>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "bytetape/autograd/kept.h"
#include "bytetape/core/memory/ambient.h"
#include "bytetape/core/named_tensors.h"
#include "bytetape/nn/hooks.h"
#include "bytetape/nn/parameter.h"

namespace bytetape::detail {
class Cloning;
}

/// Modules and layers.
namespace bytetape::nn {

class FusionRole;

/// Tensors with their names, in order of registration. Names are PyTorch's: "conv1.weight".
using NamedTensors = bytetape::NamedTensors;

/// A registered child of a module.
struct ChildModule {
  std::string name;
  std::shared_ptr<Module> owned;  ///< null if the child is a member of the parent
  memory::ModuleCell cell;
  /// Copies an owned child within nn::clone(). The function returns null for a child of another class. The pointer is
  /// null if the child's class is not known.
  std::shared_ptr<Module> (*copy)(const Module& child) = nullptr;
  /// Returns the child.
  /// Throws ValueError if the child is a member that was destroyed.
  Module& module() const;
  /// Returns the child's path in errors and on the ledger, which begins with the path `parent`. If the child's name is
  /// a number, the path includes the class, as in "7 Linear".
  memory::NameId path_below(memory::NameId parent) const;
};

/// Base class of layers and models: parameters, buffers, children, and a forward function (torch.nn.Module).
///
/// Derive from Module, and register members in the constructor:
///
///     struct Net : nn::Module {
///       nn::Linear fc1{784, 128}, fc2{128, 10};
///       nn::Parameter scale = register_parameter("scale", {1});
///       Net() { register_module("fc1", fc1), register_module("fc2", fc2); }
///       Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))) * scale; }
///     };
///
/// Modules can be moved. Their members move with them, and a parent still finds a child that was moved. nn::clone()
/// copies a module (nn/clone.h). Copying a module in another way throws ValueError. A class whose members cannot be
/// copied, such as a vector of std::unique_ptr, must delete its copy constructor.
class Module {
 public:
  Module() = default;
  Module(Module&& other) noexcept;
  Module& operator=(Module&&) = delete;
  virtual ~Module();

  /// Computes the module's output. Called through operator(), and by Sequential.
  /// A module whose input is not a single tensor does not override forward(). Its functions return nn::call(*this,
  /// body, inputs...) instead (nn/call.h).
  /// Throws NotImplemented if it is not overridden.
  virtual Tensor forward(const Tensor& x);
  /// Runs forward(x) as a call of the module.
  Tensor operator()(const Tensor& x);

  /// Returns the parameters of this module and its descendants, each once.
  /// Throws ValueError, as do the functions below that visit children, if a child that was registered as a member was
  /// destroyed.
  std::vector<Tensor> parameters() const;
  /// Returns the parameters with their names. A tied parameter is listed once, under its first name. If
  /// remove_duplicate is false, it is listed under each of its names.
  NamedTensors named_parameters(bool remove_duplicate = true) const;
  /// Returns the buffers of this module and its descendants, with names as in named_parameters().
  /// Buffers are moved with the module, saved if they are persistent, and not trained.
  NamedTensors named_buffers(bool remove_duplicate = true) const;
  /// Returns this module, under the path "", and all its descendants with their paths.
  std::vector<std::pair<std::string, Module*>> named_modules();
  /// Return the parameter, buffer or module at a path, such as "4.weight" or "layer1.0". A tied parameter has several
  /// paths.
  /// Throws ValueError if the path names no parameter, buffer or module.
  Tensor get_parameter(const std::string& path) const;
  Tensor get_buffer(const std::string& path) const;
  Module& get_submodule(const std::string& path);
  /// Returns this module as its class M: `net[4].as<nn::Linear>().weight`.
  /// Throws ValueError if the module is not an M.
  template <class M>
  M& as() {
    M* const module = dynamic_cast<M*>(this);
    if (!module) fail_as(typeid(M));
    return *module;
  }

  /// Sets training mode (on) or evaluation mode (off) for this module and its descendants. Default: on.
  /// Dropout and batch normalisation depend on the mode.
  Module& train(bool on = true);
  Module& eval() { return train(false); }
  bool is_training() const { return training_; }

  /// Sets whether each call of the module is a checkpoint() while gradients are recorded. Default: off.
  /// A checkpointed module does not keep its activations for backward, but recomputes them. It must not be moved before
  /// backward. Its functions that begin with nn::Call throw NotImplemented, because they cannot be recomputed.
  Module& set_checkpointed(bool on = true);
  bool is_checkpointed() const { return checkpointed_; }

  /// Sets whether calls of the module run under Recompute(true). Default: off.
  /// Cheap results that the module's ops need in backward are then recomputed instead of saved, with the same bits.
  /// Results that only ops outside the module need are still saved. A checkpointed module recomputes all its forward.
  /// Do not change the setting between forward and backward of a checkpoint() around the module.
  Module& set_recomputing(bool on = true);
  bool is_recomputing() const { return recomputing_; }

  /// Registers a hook, which runs in each call of the module. Hooks run in the order of registration.
  /// operator() and nn::call() run hooks. Functions that begin with nn::Call do not, nor does forward() if it is called
  /// directly. A call of the module within its own call runs no hooks. Hooks move with the module. They are not in
  /// state_dict().
  ///
  ///     net[2].register_forward_hook([&](const nn::Module&, const auto& inputs, auto& outputs) {
  ///       features = outputs[0].detach();
  ///     });
  ///
  /// A checkpoint() that contains the call runs forward hooks again in backward. If the module itself is checkpointed,
  /// its own hooks run outside that checkpoint, and only once. Replays of a captured step run the ops of hooks, but not
  /// their host code. A Sequential does not fuse modules that have hooks.
  ///
  /// Throws ValueError if the hook is empty.
  HookHandle register_forward_pre_hook(ForwardPreHook hook);
  HookHandle register_forward_hook(ForwardHook hook);
  /// Registers a hook on the gradients of the calls that are made from now on.
  /// Backward keeps the gradients of a call's outputs until the hook has run. The body of the call must not overwrite
  /// its inputs in place. If no input requires grad, the hook runs once the gradients of the outputs are known.
  HookHandle register_full_backward_hook(BackwardHook hook);

  /// Moves parameters, gradients and buffers to `device`, in place. Other handles to them, such as an optimizer's,
  /// refer to the moved tensors. Run the backward of earlier graphs before, because it throws AutogradError after.
  /// Throws DeviceError if a tensor has no data to move because it is on a meta device. The model is then unchanged.
  Module& to(Device device);
  /// Converts floating parameters, gradients and buffers to `dtype`, in place, as to(device) moves them.
  /// Throws DTypeError if `dtype` is not floating.
  Module& to(DType dtype);
  /// Moves and converts at once.
  /// Throws DeviceError and DTypeError as the overloads above.
  Module& to(Device device, DType dtype);
  /// Calls f on all descendants, then on this module.
  Module& apply(const std::function<void(Module&)>& f);
  /// Sets all gradients to undefined.
  void zero_grad();

  /// Returns parameters and persistent buffers by name. They share the module's memory. A tied tensor is listed under
  /// each of its names.
  NamedTensors state_dict() const;
  /// Copies the values of `state` into the parameters and buffers, converted to their dtypes.
  /// If `strict` is false, keys may be missing or unexpected.
  /// Throws ValueError, naming every missing, unexpected or repeated key, if the keys do not match.
  /// Throws ValueError if a tensor of `state` is undefined or a buffer is an expanded view.
  /// Throws ShapeError if a shape does not match.
  /// Throws DeviceError if a tensor of `state` is on a meta device, and so has no data, but the model's tensor is not.
  /// After an exception, the model is unchanged.
  void load_state_dict(const NamedTensors& state, bool strict = true);

  /// Returns a description for summary() and errors, such as "Linear(784, 10)". Default: the name of the class.
  virtual std::string describe() const;
  /// Returns how Sequential may fuse the module with its neighbours (nn/fusion.h). Default: the module runs alone.
  virtual FusionRole fusion_role() const;

 protected:
  /// Registers a new, uninitialised f32 parameter on default_device(), for a member nn::Parameter.
  /// `layout` computes its strides from its shape. Default: row-major.
  /// Throws ValueError, as do the other functions that register, if the name is empty, contains '.', is taken, or
  /// begins with a number and a space or with "(root) ". Reports would show the beginning of such a name as a class.
  Registration register_parameter(std::string name, const Shape& shape,
                                  Strides (*layout)(const Shape&) = contiguous_strides);
  /// Registers `value` as a parameter, and makes it require grad.
  /// A tensor that another module has registered keeps its requires_grad. An undefined tensor reserves the name, to be
  /// assigned later (PyTorch's None).
  /// Throws AutogradError if `value` is not a leaf.
  /// Throws DTypeError if `value` is not floating.
  Registration register_parameter(std::string name, const Tensor& value);
  /// Registers a buffer, for a member nn::Buffer. Buffers are saved and moved with the module but not trained. If
  /// `persistent` is false, the buffer is moved but not saved: state_dict() leaves it out.
  Registration register_buffer(std::string name, const Tensor& value, bool persistent = true);
  /// Registers a child that is a member. The child may be moved. If the child is destroyed before this module,
  /// functions that need the child throw ValueError.
  void register_module(std::string name, Module& child);
  /// Registers a child that this module owns.
  /// Throws ValueError if `child` is null.
  void register_module(std::string name, std::shared_ptr<Module> child) {
    register_owned(std::move(name), std::move(child), nullptr);
  }
  template <std::derived_from<Module> M>
  void register_module(std::string name, std::shared_ptr<M> child) {
    register_owned(std::move(name), std::move(child), [](const Module& m) { return copy_as<M>(m); });
  }

  /// Copies a module within nn::clone().
  /// Throws ValueError elsewhere.
  Module(const Module& other);
  /// Returns the copy of a child that this module owns, for a copy constructor that is called by nn::clone().
  template <std::derived_from<Module> M>
  static std::shared_ptr<M> copied_child(const std::shared_ptr<M>& owned) {
    return std::dynamic_pointer_cast<M>(copied_child_of(*owned));
  }

  /// Calls bytetape::to(), which Module::to() would hide in member functions.
  static Tensor to(const Tensor& x, Device device);
  static Tensor to(const Tensor& x, DType dtype);
  static Tensor to(const Tensor& x, Device device, DType dtype);

 private:
  friend class Call;
  friend class FusionRole;
  friend class bytetape::detail::Cloning;

  // Names of private members must not be common words, because they hide a user's types and ops in derived modules.
  const memory::ModuleCell& cell();
  memory::NameId place_named(const char* kind, const std::string& name) const;
  void check_name(const std::string& name) const;
  Registration register_slot(Slot::Kind kind, std::string name, const Tensor& value);
  void register_owned(std::string name, std::shared_ptr<Module> child, std::shared_ptr<Module> (*copy)(const Module&));
  template <class M>
  static std::shared_ptr<Module> copy_as(const Module& module) {
    if constexpr (std::copy_constructible<M>)
      if (typeid(module) == typeid(M)) return std::make_shared<M>(static_cast<const M&>(module));
    return nullptr;
  }
  static std::shared_ptr<Module> copied_child_of(const Module& owned);
  void adopt_orphans();
  void become_root();
  void adopt(ChildModule child);
  memory::NameId own_path() const;
  void rebook(memory::NameId path);
  NamedTensors named(std::initializer_list<Slot::Kind> kinds) const;
  [[noreturn]] void fail_as(const std::type_info& wanted) const;
  void convert(const std::function<Tensor(const Tensor&)>& f);
  template <class List, class Hook>
  HookHandle add_hook(List ModuleHooks::*list, Hook hook);
  bool has_hooks() const;

  const Module* parent_module() const { return parent_ ? static_cast<const Module*>(*parent_) : nullptr; }
  bool trains() const;
  bool is_tied_to_model(const Module& module) const;
  bool find_way(const Module& module, std::vector<const ChildModule*>& way) const;
  memory::NameId path_below(const Module* caller) const;
  void check_registered(const Module& module) const;

  std::vector<std::shared_ptr<Slot>> slots_;
  std::vector<ChildModule> children_;
  std::shared_ptr<ModuleHooks> hooks_;                  // null if none was registered
  memory::ModuleCell cell_, parent_;                    // parent_ is the first module that registered this one
  memory::NameId path_ = memory::ambient.scope.module;  // path in parent_; for a root, the scope of its constructor
  mutable std::atomic<std::uint64_t> place_{0};         // cache of path_below(): the caller's path, and the result
  bool training_ = true, checkpointed_ = false, recomputing_ = false;
};

/// Makes the modules at these paths checkpointed, and all other modules of `model` not checkpointed.
/// A path is one of named_modules(), such as "layer1.0", or of the ledger and memory::advise(), such as
/// "layer1.0 Block".
/// Throws ValueError if the model has no module at one of the paths. All modules are then unchanged.
void checkpoint_modules(Module& model, const std::vector<std::string>& places);
/// Turns set_recomputing() on for the modules at these paths, and off for all other modules of `model`.
/// Paths have the form that checkpoint_modules() takes. "" is the model itself.
/// Throws ValueError if the model has no module at one of the paths. All modules are then unchanged.
void recompute_modules(Module& model, const std::vector<std::string>& places);

/// Returns a table of the modules: shapes and counts of their parameters, bytes of parameters and buffers, and totals
/// by dtype and device.
std::string summary(Module& model);

}  // namespace bytetape::nn

namespace bytetape::detail {

template <std::derived_from<nn::Module> M>
inline constexpr bool is_kept_by_reference<M> = true;

}  // namespace bytetape::detail
