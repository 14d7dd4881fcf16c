#pragma once
#include <concepts>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "bytetape/autograd/call_of_list.h"
#include "bytetape/autograd/checkpoint.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

/// Scope in which `module` is the running module of this thread.
///
/// Errors and the ledger show the module's path, below the path of the module that called it. Prefer nn::call() for a
/// function of tensors, as nn::call() supports checkpointing. A function with other arguments or results begins with a
/// Call:
///
///     std::int64_t next_token(const std::vector<std::int64_t>& tokens) {
///       const nn::Call call(*this);
///
/// Throws NotImplemented if the module is checkpointed, because the code after the Call cannot be recomputed.
/// Throws ValueError if no optimizer would train the module's parameters. That is so if gradients are recorded, and the
/// module is not registered anywhere, has parameters that require grad, and is called by a module that has registered
/// parameters or children. Parameters tied to parameters of the caller's model are exempt.
class Call {
 public:
  [[nodiscard]] explicit Call(const Module& module);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 protected:
  struct Repeatable {};
  Call(const Module& module, Repeatable);
  /// True if the module was already running: one of its functions calls another.
  bool is_within_itself() const { return is_within_itself_; }
  /// True if the call runs hooks of the module.
  bool has_hooks() const { return module_.has_hooks() && !is_within_itself_; }
  /// Runs body(inputs) with the module's hooks.
  std::vector<Tensor> run_hooks(const bytetape::detail::ListFunction& body, std::vector<Tensor> inputs) const;
  /// True if the module's path differs from the path around the call.
  bool has_own_path() const { return has_own_path_; }

 private:
  const Module& module_;
  const memory::ModuleCell* caller_;
  const memory::NameId around_ = memory::ambient.scope.module;
  memory::ScopeGuard scope_;
  bool is_within_itself_, has_own_path_ = memory::ambient.scope.module != around_;
  std::optional<Recompute> recompute_;
};

}  // namespace bytetape::nn

namespace bytetape::detail {

/// A call of a module whose body can be recomputed. Reports the input and result tensors to a memory recording.
class RepeatableCall : nn::Call {
 public:
  [[nodiscard]] explicit RepeatableCall(const nn::Module& module);
  using Call::has_hooks;
  using Call::run_hooks;
  bool is_checkpoint() const { return is_checkpoint_; }
  void note_inputs(std::initializer_list<const Tensor*> inputs) const;
  void note_results(const std::vector<Tensor>& results) const;
  /// True if note_inputs() and note_results() have an effect: memory is being recorded, and the call is not a
  /// recomputation.
  bool is_recorded() const { return is_recorded_; }

 private:
  bool is_checkpoint_, is_recorded_;
};

}  // namespace bytetape::detail

namespace bytetape::nn {

/// Runs body(inputs...) as a call of `module`, and as a checkpoint() if the module is checkpointed.
///
/// Runs the module's hooks around it. Errors and the ledger show the module's path. A module whose input is not a
/// single tensor x defines its own operator() or named functions with nn::call():
///
///     Tensor operator()(const Tensor& x, const Tensor& skip) {
///       const auto body = [this](const Tensor& x, const Tensor& skip) { return conv(cat({up(x), skip}, 1)); };
///       return nn::call(*this, body, x, skip);
///     }
///
/// `body` returns a Tensor, a std::vector<Tensor>, or a std::pair or std::tuple of Tensors. `inputs` may be undefined.
/// The body of a checkpointed module is kept until backward, which runs it again. So it must capture by value, and take
/// every tensor that it needs as an input. A nested call of the same module is part of the outer call.
///
/// Exceptions from `body` and checkpoint() pass through.
/// Throws ValueError under the conditions of Call.
template <class F, std::derived_from<Tensor>... Inputs>
std::invoke_result_t<F&, const Inputs&...> call(const Module& module, F&& body, const Inputs&... inputs) {
  using Result = std::invoke_result_t<F&, const Inputs&...>;
  const bytetape::detail::RepeatableCall here(module);
  const auto run = [&](const auto&... x) -> Result {
    if (here.is_recorded()) [[unlikely]]
      here.note_inputs({&x...});
    Result result = here.is_checkpoint() ? checkpoint(std::forward<F>(body), x...) : body(x...);
    if (here.is_recorded()) [[unlikely]] {
      const auto same = [&]() -> const Result& { return result; };
      here.note_results(bytetape::detail::call_of_list<0>(same, {}));
    }
    return result;
  };
  if (here.has_hooks()) [[unlikely]] {
    const auto run_list = [&](std::span<const Tensor> x) {
      return bytetape::detail::call_of_list<sizeof...(Inputs)>(run, x);
    };
    return bytetape::detail::result_of_list<Result>(here.run_hooks(run_list, {inputs...}));
  }
  return run(inputs...);
}

}  // namespace bytetape::nn
