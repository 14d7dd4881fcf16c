#pragma once
#include <type_traits>

#include "bytetape/core/device/device.h"

namespace bytetape {

class Generator;

namespace detail {

class Capture;
class Draws;
class SavedWatch;
class StepWatch;

/// A rank whose memory is predicted, while the others are not there.
struct SimulatedRank {
  bool is_active = false;
  int rank = 0;
  int world_size = 0;  ///< 0: rank and size are those of this process
};

/// The thread's modes that core reads. A scope sets each mode and restores the old value at its end.
/// core/memory/ambient.h has those of memory. docs/architecture.md lists the modes of all folders.
struct CoreAmbient {
  /// The device of factories, layers, loaders and memory::Step. Set by DefaultDevice. Default: the CPU.
  Device default_device{};
  /// The generator of ops and initialisers. Set by DefaultGenerator. Default: null, which means the generator that all
  /// threads share.
  Generator* generator = nullptr;
  /// Records or repeats random draws. Set by Draws, for checkpoint(). Default: null.
  Draws* draws = nullptr;
  /// Sees each storage that is used or written. Set by StepWatch, for capture(). Default: null.
  StepWatch* step_watch = nullptr;
  /// The step that is being recorded. Set by Capture until its recording ends. Default: null.
  Capture* capture = nullptr;
  /// Sees each storage that becomes saved for backward. Set by SaveOnCpu, reset while backward runs. Default: null.
  SavedWatch* saved_watch = nullptr;
  /// The rank that dist::init() simulates. Set by predict(). Default: none.
  SimulatedRank simulated_rank{};
};
// Access to a thread-local variable with a destructor would cost a call.
static_assert(std::is_trivially_destructible_v<CoreAmbient>);

inline constinit thread_local CoreAmbient core_ambient{};

}  // namespace detail
}  // namespace bytetape
