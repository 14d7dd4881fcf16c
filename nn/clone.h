#pragma once
#include <concepts>
#include <memory>
#include <typeinfo>
#include <unordered_map>
#include <vector>

#include "bytetape/core/tensor.h"
#include "bytetape/nn/module.h"

namespace bytetape::detail {

/// The originals and copies of a clone() that runs. Copy constructors of modules and parameters find it in nn_ambient.
class Cloning {
 public:
  [[nodiscard]] explicit Cloning(const nn::Module& original, const std::type_info& copied_as);
  ~Cloning();
  Cloning(const Cloning&) = delete;
  Cloning& operator=(const Cloning&) = delete;

  /// Makes `copy`, which was copy-constructed from the original, a module of its own, and checks that it is complete.
  /// Throws ValueError if a child was not copied, or is shared with the original.
  void finish(nn::Module& copy) const;

  /// Returns the copy of x; the same one for the same x. Undefined for an undefined tensor.
  Tensor copy_of(const Tensor& x);
  /// Returns the copy of a child that a module owns, made when it is first asked for.
  /// Throws NotImplemented if the child's class is not known or cannot be copied.
  std::shared_ptr<nn::Module> copy_of(const nn::ChildModule& child);
  /// Returns the cell of a module's copy. It is empty until the module is copied.
  memory::ModuleCell copy_of(const memory::ModuleCell& cell);
  bool has(const memory::ModuleCell& cell) const { return cells_.contains(cell); }
  void add(const std::shared_ptr<nn::Slot>& original, const std::shared_ptr<nn::Slot>& copy);
  /// Returns the copy of a slot. Null if its module was not copied.
  std::shared_ptr<nn::Slot> copy_of(const std::shared_ptr<nn::Slot>& slot) const;
  /// Returns the copy of a child that was copied before.
  std::shared_ptr<nn::Module> copied(const nn::Module& owned) const { return owned_.at(&owned).copy; }

 private:
  struct Owned {
    const nn::ChildModule* child;
    long owners;  // of the original, before
    std::shared_ptr<nn::Module> copy;
  };
  Cloning* const outer_;
  std::unordered_map<const TensorImpl*, Tensor> tensors_;
  std::unordered_map<memory::ModuleCell, memory::ModuleCell> cells_;
  std::unordered_map<std::shared_ptr<nn::Slot>, std::shared_ptr<nn::Slot>> slots_;
  std::unordered_map<const nn::Module*, Owned> owned_;
};

}  // namespace bytetape::detail

namespace bytetape::nn {

/// Returns a copy of a module that shares nothing with it: parameters, buffers and child modules are copied
/// (copy.deepcopy of a torch.nn.Module).
///
///     nn::Sequential teacher = nn::clone(student);
///     for (Tensor p : teacher.parameters()) p.set_requires_grad(false);
///
/// Parameters that are tied stay tied in the copy, and a module that is registered twice is copied once. Modes, frozen
/// parameters, dtypes, devices and layouts are copied too. Gradients and hooks are not. The copy has no parent.
///
/// Other members are copied as C++ copies them. So a lambda, a pointer or a plain Tensor refers to what it referred to
/// before, also if that is a part of `module`.
///
/// Throws ValueError if `module` is of a class derived from M: pass it as its class, `nn::clone(net[0].as<Block>())`.
/// Throws ValueError if a module holds a child in a std::shared_ptr member, which a copy would share. Hold it by value
/// or in a ModuleList. Throws NotImplemented if a child cannot be copied, or was registered as a std::shared_ptr to a
/// base class.
template <std::derived_from<Module> M>
M clone(const M& module) {
  const bytetape::detail::Cloning cloning(module, typeid(M));
  M copy(module);
  cloning.finish(copy);
  return copy;
}

}  // namespace bytetape::nn
