#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bytetape/core/tensor.h"

/// Modules and layers.
namespace bytetape::nn {

/// Named tensors in order of registration, with PyTorch's names: "conv1.weight".
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// A part of a model: parameters, buffers, children, and a forward. Derive, register members in the constructor:
///
///     struct Net : nn::Module {
///       nn::Linear fc1{784, 128}, fc2{128, 10};
///       Net() { register_module("fc1", fc1), register_module("fc2", fc2); }
///       Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
///     };
///
/// Not copyable. A module whose children are members (as here) does not move either: the move throws; layers and
/// Sequential do.
class Module {
 public:
  Module() = default;
  /// Throws ValueError where a child is a member.
  Module(Module&& other);
  Module& operator=(Module&&) = delete;
  virtual ~Module() = default;

  /// What the module makes of x. Called through operator().
  virtual Tensor forward(const Tensor& x) = 0;
  /// forward(x), in the scope of this module: its path stands in errors and on the ledger.
  Tensor operator()(const Tensor& x);

  /// Every parameter of this module and below, each once.
  std::vector<Tensor> parameters() const;
  /// The same with names; one that is shared comes under each of its names.
  NamedTensors named_parameters() const;
  /// What is saved and moved but not trained, of this module and below.
  NamedTensors named_buffers() const;
  /// This module ("") and everything below, with paths.
  std::vector<std::pair<std::string, Module*>> named_modules();

  /// Training mode, or evaluation: Dropout and BatchNorm2d differ. On at start.
  Module& train(bool on = true);
  Module& eval() { return train(false); }
  bool is_training() const { return training_; }

  /// Moves parameters, gradients and buffers in place: tensors held elsewhere (an optimizer's) follow. Throws
  /// DeviceError where there is no data to move (from a meta device), and leaves the model as it was.
  Module& to(Device device);
  /// Converts floating parameters, gradients and buffers in place. Throws DTypeError unless dtype is floating.
  Module& to(DType dtype);
  /// f(module) for everything below, then for this.
  Module& apply(const std::function<void(Module&)>& f);
  /// Forgets every gradient.
  void zero_grad();

  /// Parameters and buffers by name; they share the module's memory.
  NamedTensors state_dict() const;
  /// Copies values in. Throws ValueError naming every missing and unexpected key, ShapeError on a misfit, before
  /// anything is written. Dtypes are converted; strict = false loads what is there.
  void load_state_dict(const NamedTensors& state, bool strict = true);

  /// "Linear(784, 10)", for the summary.
  virtual std::string describe() const { return "Module"; }

 protected:
  /// Registers a new f32 parameter on default_device(), to be initialised, and returns it. Like all that follow, throws
  /// ValueError where the name is empty, has a '.' or is taken.
  Tensor register_parameter(std::string name, const Shape& shape);
  /// Registers `value` as a parameter that requires grad, and returns it. Throws ValueError where it is undefined,
  /// AutogradError where it is no leaf, DTypeError on integers.
  Tensor register_parameter(std::string name, Tensor value);
  /// Registers a tensor that is saved and moved with the module but not trained. Throws ValueError where it is
  /// undefined.
  Tensor register_buffer(std::string name, Tensor value);
  /// Registers a member; it must live as long as this module.
  void register_module(std::string name, Module& child);
  /// Registers a child that this module owns. Throws ValueError where it is null.
  void register_module(std::string name, std::shared_ptr<Module> child);

 private:
  struct Child {
    std::string name;
    std::shared_ptr<Module> owned;  // null where the child is a member of the parent
    Module* module;
  };
  void adopt(Child child);
  void convert(const std::function<Tensor(const Tensor&)>& f);
  void collect(NamedTensors Module::*which, const std::string& prefix, NamedTensors& out) const;
  void check_name(const std::string& name) const;
  const std::string& name_below(const Module* caller) const;

  std::string name_;                     // in the parent that registered it last; empty for the root
  std::atomic<std::uint64_t> place_{0};  // where it last ran: the path that it ran under, and its own
  NamedTensors parameters_, buffers_;
  std::vector<Child> children_;
  bool training_ = true;
};

/// A table of the modules with their parameters' shapes and counts, their bytes with the buffers', and the totals.
std::string summary(Module& model);

}  // namespace bytetape::nn
