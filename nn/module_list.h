#pragma once
#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bytetape/core/error.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

/// A module to be moved into a list of M, or a std::shared_ptr to one.
template <class T, class M>
concept ModuleOrPointer = (std::derived_from<std::decay_t<T>, M> && !std::is_lvalue_reference_v<T>) ||
                          std::is_convertible_v<T, std::shared_ptr<M>>;

/// A list of modules that it owns, named "0", "1", ... unless push_back names them (torch.nn.ModuleList).
///
/// The module that has the list as a member calls its elements:
///
///     nn::ModuleList<Block> blocks;
///     ...
///     for (int i = 0; i < depth; ++i) blocks.push_back(Block(width));
///     register_module("blocks", blocks);
///     ...
///     for (Block& block : blocks) x = block(x);
template <class M = Module>
class ModuleList : public Module {
 public:
  ModuleList() = default;
  ModuleList(ModuleList&&) = default;
  /// For nn::clone(). Throws ValueError elsewhere.
  ModuleList(const ModuleList& other) : Module(other) {
    for (const auto& module : other.modules_) modules_.push_back(copied_child(module));
  }
  template <ModuleOrPointer<M>... Modules>
  explicit ModuleList(Modules&&... modules) {
    (push_back(std::forward<Modules>(modules)), ...);
  }

  /// Appends a module, named by its index.
  /// Throws ValueError if the pointer is null or the name is taken.
  template <ModuleOrPointer<M> T>
  ModuleList& push_back(T&& module) {
    return push_back(std::to_string(size()), std::forward<T>(module));
  }
  /// Appends a module under the given name.
  /// Throws ValueError if the pointer is null or the name is taken.
  template <ModuleOrPointer<M> T>
  ModuleList& push_back(std::string name, T&& module) {
    if constexpr (std::derived_from<std::decay_t<T>, Module>)
      return push_back_owned(std::move(name), std::make_shared<std::decay_t<T>>(std::forward<T>(module)));
    else if constexpr (requires(T pointer) { std::shared_ptr(std::forward<T>(pointer)); })
      return push_back_owned(std::move(name), std::shared_ptr(std::forward<T>(module)));
    else
      return push_back_owned(std::move(name), std::shared_ptr<M>(std::forward<T>(module)));
  }
  std::string describe() const override { return "ModuleList"; }

  std::size_t size() const { return modules_.size(); }
  /// Returns module number i.
  /// Throws ValueError if i is negative or not less than size().
  M& operator[](std::int64_t i) {
    check<ValueError>(std::cmp_less(i, size()) && i >= 0, describe(), " of length ", size(), " has no [", i, "]");
    return *modules_[static_cast<std::size_t>(i)];
  }

  /// Iterates over the modules: `for (M& module : list)`.
  class Iterator {
   public:
    M& operator*() const { return **at_; }
    Iterator& operator++() { return ++at_, *this; }
    bool operator==(const Iterator&) const = default;

   private:
    friend class ModuleList;
    explicit Iterator(const std::shared_ptr<M>* at) : at_(at) {}
    const std::shared_ptr<M>* at_;
  };
  Iterator begin() { return Iterator(modules_.data()); }
  Iterator end() { return Iterator(modules_.data() + modules_.size()); }

 private:
  template <class T>
  ModuleList& push_back_owned(std::string name, std::shared_ptr<T> module) {
    register_module(std::move(name), module);
    modules_.push_back(std::move(module));
    return *this;
  }
  std::vector<std::shared_ptr<M>> modules_;
};

}  // namespace bytetape::nn
