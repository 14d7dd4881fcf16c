#pragma once
#include <concepts>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "bytetape/autograd/call_of_list.h"
#include "bytetape/autograd/checkpoint.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

/// While it lives, `module` is the one that runs on this thread: its path stands in errors and on the ledger, below
/// that of the module that called it. call() is the better choice for a function of tensors, as it can be checkpointed.
/// A function of other arguments or results begins with a Call:
///
///     std::int64_t next_token(const std::vector<std::int64_t>& tokens) {
///       const nn::Call call(*this);
///
/// Throws NotImplemented if the module is checkpointed: what follows could not be run again. Throws ValueError if a
/// module that is registered nowhere has parameters that train, and a module that has registered parameters or children
/// calls it while gradients are recorded: parameters() would not have them, so no optimizer would train them.
/// Parameters that are tied to some of the caller's model are no such ones.
class Call {
 public:
  [[nodiscard]] explicit Call(const Module& module);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 protected:
  struct Repeatable {};
  Call(const Module& module, Repeatable);
  /// Whether the module ran already: one function of it calls another.
  bool is_within_itself() const { return is_within_itself_; }
  /// Whether the module's path is another than that around the call.
  bool has_own_path() const { return has_own_path_; }

 private:
  const memory::ModuleCell* caller_;
  const memory::NameId around_ = memory::current_scope.module;
  memory::ScopeGuard scope_;
  bool is_within_itself_, has_own_path_ = memory::current_scope.module != around_;
};

}  // namespace bytetape::nn

namespace bytetape::detail {

/// A call of a module whose body can be run again. Tells a recording which tensors go in and come out.
class RepeatableCall : nn::Call {
 public:
  [[nodiscard]] explicit RepeatableCall(const nn::Module& module);
  bool is_checkpoint() const { return is_checkpoint_; }
  void note_inputs(std::initializer_list<const Tensor*> inputs) const;
  void note_results(const std::vector<Tensor>& results) const;
  /// Whether either is of use.
  bool is_recorded() const { return is_recorded_; }

 private:
  bool is_checkpoint_, is_recorded_;
};

}  // namespace bytetape::detail

namespace bytetape::nn {

/// body(inputs...) as a call of `module`: its path stands in errors and on the ledger, and where the module is
/// checkpointed this is a checkpoint(). A module of other inputs than one x defines its own operator() or named
/// functions with it:
///
///     Tensor operator()(const Tensor& x, const Tensor& skip) {
///       const auto body = [this](const Tensor& x, const Tensor& skip) { return conv(cat({up(x), skip}, 1)); };
///       return nn::call(*this, body, x, skip);
///     }
///
/// body returns a Tensor, a std::vector<Tensor>, or a std::pair or std::tuple of Tensors. Inputs may be undefined. A
/// checkpointed module's body is kept until backward and runs again there: it captures by value, and takes every tensor
/// that it needs as an input. A call within a call of the same module belongs to that one.
///
/// Throws what body and checkpoint() throw, and ValueError as Call does.
template <class F, std::derived_from<Tensor>... Inputs>
std::invoke_result_t<F&, const Inputs&...> call(const Module& module, F&& body, const Inputs&... inputs) {
  using Result = std::invoke_result_t<F&, const Inputs&...>;
  const bytetape::detail::RepeatableCall here(module);
  if (here.is_recorded()) [[unlikely]]
    here.note_inputs({&inputs...});
  Result result = here.is_checkpoint() ? checkpoint(std::forward<F>(body), inputs...) : body(inputs...);
  if (here.is_recorded()) [[unlikely]] {
    const auto same = [&]() -> const Result& { return result; };
    here.note_results(bytetape::detail::call_of_list<0>(same, {}));
  }
  return result;
}

}  // namespace bytetape::nn
