#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace bytetape::memory {

/// Why a block is held. Exact, never inferred: set where the fact is known.
enum class Role : std::uint8_t {
  parameter,        ///< registered with a module, as a parameter or a buffer
  lowered,          ///< a parameter's copy in 16 bits, which autocast computes with
  gradient,         ///< some tensor's grad()
  optimizer_state,  ///< made by an optimizer
  input,            ///< a batch, or what a file of data was read into
  saved,            ///< a temporary that the tape keeps for backward, for as long as any node does
  temporary,        ///< everything else that an op makes
  workspace,        ///< a kernel's scratch, for the length of one op
};
inline constexpr int role_count = 8;
/// "parameter", "optimizer state", ...
const char* to_string(Role r);

/// What the program was doing, by thread.
enum class Phase : std::uint8_t {
  setup,      ///< everything else
  data,       ///< a Dataset allocates or fills a batch
  forward,    ///< within a memory::Step or the call of a module, where it is none of the others
  backward,   ///< Tensor::backward() or grad()
  optimizer,  ///< Optimizer::step()
};
inline constexpr int phase_count = 5;
/// "setup", "data", ...
const char* to_string(Phase p);

/// An interned string: equal names have equal ids; 0 is the empty name.
using NameId = std::uint32_t;
/// The id of `name`, a new one at its first use.
NameId intern(std::string_view name);
/// The name of an id that intern() gave; the reference holds for good.
const std::string& name_of(NameId id);
/// The id of `parent.child`, or of `child` where parent is empty.
NameId join_path(NameId parent, std::string_view child);

/// Where a GPU's work goes (core/stream.h), of stream_count; 0 is the device's own.
using StreamId = std::uint8_t;
inline constexpr int stream_count = 16;

/// Who is allocating: recorded on every block and event, but for the stream, which says where blocks come from.
struct ScopeIds {
  NameId module = 0;
  NameId op = 0;
  Phase phase = Phase::setup;
  StreamId stream = 0;

  /// Another one on the same stream.
  ScopeIds with(NameId its_module, NameId its_op, Phase its_phase) const {
    return {its_module, its_op, its_phase, stream};
  }
};

/// This thread's scope.
inline constinit thread_local ScopeIds current_scope{};
/// This thread's number, from 1, which no other thread of the process ever has.
std::uint64_t thread_number();

/// Where a module is now, nn's to read; null where it has ended.
using ModuleCell = std::shared_ptr<void*>;
/// That of the module that this thread runs; null outside.
inline constinit thread_local const ModuleCell* running_module = nullptr;

/// Whether a Recording (recording.h) runs, and scopes are to tell it what begins and ends.
inline constinit std::atomic<bool> is_recording{false};
/// Tells it that this thread's scope becomes `inner`, or with `begins` false is no longer, within `outer`.
void note_scope(const ScopeIds& outer, const ScopeIds& inner, bool begins);

/// Sets the thread's scope for a C++ scope and puts the old one back.
class ScopeGuard {
 public:
  [[nodiscard]] explicit ScopeGuard(ScopeIds s) : previous_(current_scope) {
    current_scope = s;
    if (is_recording.load(std::memory_order_relaxed)) [[unlikely]]
      note_scope(previous_, s, true);
  }
  ~ScopeGuard() {
    if (is_recording.load(std::memory_order_relaxed)) [[unlikely]]
      note_scope(previous_, current_scope, false);
    current_scope = previous_;
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 protected:
  ScopeIds previous_;
};

/// The op that is running; what errors and the ledger name. Ops made of ops are named by the outermost.
class OpScope : ScopeGuard {
 public:
  [[nodiscard]] explicit OpScope(NameId op)
      : ScopeGuard(
            current_scope.with(current_scope.module, current_scope.op ? current_scope.op : op, current_scope.phase)) {}
};

/// An op's name as a template argument.
template <std::size_t N>
struct OpName {
  char text[N];
  constexpr OpName(const char (&name)[N]) {
    for (std::size_t i = 0; i < N; ++i) text[i] = name[i];
  }
};
/// The first line of every op: `const Op<"relu"> op;`. Interns the name once.
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

/// What the thread is doing.
class PhaseScope : ScopeGuard {
 public:
  [[nodiscard]] explicit PhaseScope(Phase p)
      : ScopeGuard(current_scope.with(current_scope.module, current_scope.op, p)) {}
};

/// The module that is running, by its path from the root.
class ModuleScope : ScopeGuard {
 public:
  [[nodiscard]] explicit ModuleScope(NameId path)
      : ScopeGuard(current_scope.with(path, current_scope.op, current_scope.phase)) {}
};

/// A part of a program under a name of the user's (torch.profiler.record_function): what is allocated while it lives is
/// booked as a module's of that name, below the module that runs.
///
///     const memory::Scope scope("augmentation");
class Scope : ModuleScope {
 public:
  /// Throws ValueError where the name is empty.
  [[nodiscard]] explicit Scope(std::string_view name) : ModuleScope(path_below_current(name)) {}

 private:
  static NameId path_below_current(std::string_view name);
};

}  // namespace bytetape::memory
