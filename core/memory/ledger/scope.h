#pragma once
#include <atomic>
#include <cstddef>
#include <string_view>

#include "bytetape/core/memory/ambient.h"
#include "bytetape/core/memory/recording/recording_hooks.h"

namespace bytetape::memory {

/// Sets the thread's scope for a C++ scope, and restores the old one.
class ScopeGuard {
 public:
  [[nodiscard]] explicit ScopeGuard(ScopeIds s) : previous_(ambient.scope) {
    ambient.scope = s;
    if (is_recording.load(std::memory_order_relaxed)) [[unlikely]]
      note_scope(previous_, s, true);
  }
  ~ScopeGuard() {
    if (is_recording.load(std::memory_order_relaxed)) [[unlikely]]
      note_scope(previous_, ambient.scope, false);
    ambient.scope = previous_;
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 protected:
  ScopeIds previous_;
};

/// Sets the running op, which errors and the ledger name. Ops that an op calls have the name of the outermost.
class OpScope : ScopeGuard {
 public:
  [[nodiscard]] explicit OpScope(NameId op)
      : ScopeGuard(
            ambient.scope.with(ambient.scope.module, ambient.scope.op ? ambient.scope.op : op, ambient.scope.phase)) {}
};

/// An op's name as a template argument.
template <std::size_t N>
struct OpName {
  char text[N];
  constexpr OpName(const char (&name)[N]) {
    for (std::size_t i = 0; i < N; ++i) text[i] = name[i];
  }
};
/// Sets the running op by its name, which is interned once. The first line of every op: `const Op<"relu"> op;`.
template <OpName name>
class Op : OpScope {
 public:
  [[nodiscard]] Op() : OpScope(id()) {}

 private:
  static NameId id() {
    static const NameId interned = intern({name.text, sizeof(name.text) - 1});
    return interned;
  }
};

/// Sets the thread's phase.
class PhaseScope : ScopeGuard {
 public:
  [[nodiscard]] explicit PhaseScope(Phase p)
      : ScopeGuard(ambient.scope.with(ambient.scope.module, ambient.scope.op, p)) {}
};

/// Sets the running module, by its path from the root.
class ModuleScope : ScopeGuard {
 public:
  [[nodiscard]] explicit ModuleScope(NameId path)
      : ScopeGuard(ambient.scope.with(path, ambient.scope.op, ambient.scope.phase)) {}
};

/// Names a part of a program (torch.profiler.record_function). Allocations in the scope are attributed to a module of
/// that name, below the running module.
///
///     const memory::Scope scope("augmentation");
class Scope : ModuleScope {
 public:
  /// Throws ValueError if the name is empty.
  [[nodiscard]] explicit Scope(std::string_view name) : ModuleScope(path_below_current(name)) {}

 private:
  static NameId path_below_current(std::string_view name);
};

}  // namespace bytetape::memory
