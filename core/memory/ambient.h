#pragma once
#include <cstdint>
#include <memory>
#include <type_traits>

#include "bytetape/core/memory/ledger/scope_ids.h"

namespace bytetape::memory {

class Allocator;
class Policies;
class MetaAllocators;
class CapturedWork;
class PredictedWork;

/// The address of a module, for nn to read. The address is null once the module is destroyed.
using ModuleCell = std::shared_ptr<void*>;

/// The policies that an allocator serves blocks from, in place of its own.
struct PoolPlace {
  const Allocator* owner = nullptr;
  Policies* policies = nullptr;
};

/// The modes of a thread that core/memory reads. Each is set by a scope, which restores the old value at its end.
/// docs/architecture.md lists the modes of all folders.
struct Ambient {
  /// The module, op, phase and stream that allocations are booked under. Set by ScopeGuard and the classes made of it
  /// (OpScope, PhaseScope, ModuleScope, Scope, StreamScope), and by Step. Default: no names, phase `setup`, stream 0.
  ScopeIds scope{};
  /// The module that is running. Set by nn::Call and by the second run of checkpoint(). Default: null, none.
  const ModuleCell* running_module = nullptr;
  /// The name of the tensor that is about to be allocated, for a recording: "f32 64x3x32x32". Set by MadeFor while a
  /// Recording runs. Default: 0, no name.
  NameId made_for = 0;
  /// The pool that allocations come from. Set by PoolScope, reset by OutsidePools. Default: none.
  PoolPlace pool{};
  /// The allocators of meta devices, in place of the process's. Set by predict(). Default: null, the process's.
  MetaAllocators* meta_allocators = nullptr;
  /// The captured step whose work is counted while it is recorded. Set by CapturedWork::Scope. Default: null, none.
  CapturedWork* captured_work = nullptr;
  /// The predicted step whose work is counted. Set by PredictedWork::Scope. Default: null, none.
  PredictedWork* predicted_work = nullptr;
  /// The result of thread_number(). Given at its first call, replaced by AsThread. Default: 0, not yet given.
  std::uint64_t thread_number = 0;
};
// Access to a thread-local variable with a destructor would cost a call.
static_assert(std::is_trivially_destructible_v<Ambient>);

inline constinit thread_local Ambient ambient{};

}  // namespace bytetape::memory
