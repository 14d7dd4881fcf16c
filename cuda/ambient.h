#pragma once
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace bytetape::cuda {

class Streams;

/// The streams that record a thread's work on device number `index`, in place of the device's.
struct RecordingStreams {
  Streams* streams = nullptr;  // null if nothing is recorded
  int index = 0;
  std::vector<std::shared_ptr<const void>>* kept = nullptr;  // objects that live as long as the recording
};

/// The last launches of recorded work, if they are overlapping ones (runtime/overlap.h): the memory that they write.
struct OverlappingWrites {
  static constexpr int most = 32;
  struct Range {
    std::uintptr_t begin, end;
  };
  const void* stream = nullptr;  // null: unknown, as the last launch is another one
  int count = 0;
  Range ranges[most] = {};
};

/// A clipping of gradients that no step has followed yet.
struct Clipped {
  const unsigned* answer = nullptr;  // on the device: not 0 if the clipping was skipped
  const Streams* streams = nullptr;  // the streams it ran on, or that recorded it
  std::uint64_t faults_thrown = 0;   // Ambient::faults_thrown then: a fault that is thrown later ends it
};

/// The modes of a thread that cuda reads. docs/architecture.md lists the modes of all folders.
struct Ambient {
  /// The streams that record this thread's work as a graph. Set by RecordingScope (runtime/graph.cpp). Default: none.
  RecordingStreams recording{};
  /// The memory that the next overlapping kernel must not read early. Set by launch_overlapping() (runtime/overlap.h).
  /// Cleared by stream_of(), which every launch calls, by waits for other streams, and by RecordingScope. Default:
  /// unknown.
  OverlappingWrites overlapping{};
  /// The number of CUDA's current device, whose errors its calls return. Set by make_current() (runtime/runtime.cpp)
  /// and never restored, as each call makes its own device current. Default: -1, not yet set.
  int current_device = -1;
  /// The number of faults that this thread threw. Counted by throw_pending_fault(). Default: 0.
  std::uint64_t faults_thrown = 0;
  /// The clipping that the next step belongs to. Set and taken by StepLaunches (runtime/step_answer.h). Default: none.
  Clipped clipped{};
};
// Access to a thread-local variable with a destructor would cost a call.
static_assert(std::is_trivially_destructible_v<Ambient>);

inline constinit thread_local Ambient ambient{};

}  // namespace bytetape::cuda
