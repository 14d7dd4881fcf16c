#pragma once
#include <cstdint>
#include <memory>
#include <mutex>

#include "bytetape/core/device/device.h"

namespace bytetape {

struct StateDict;

/// A position in the Philox 4x32-10 stream of `seed`: counter `offset`, four 32-bit words per counter.
/// Element i in row-major order takes word i, or words 2i and 2i + 1 (low half first) if it needs 64 bits. So the bits
/// do not depend on threads, strides or device (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11).
struct PhiloxState {
  std::uint64_t seed = 0, offset = 0;
  /// For a captured step: device memory with the state at the start of each replay. It defines the seed, and `offset`
  /// is relative to it. Null otherwise.
  const PhiloxState* start = nullptr;
};

/// Hands out disjoint ranges of one Philox stream. Thread-safe.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) { place_->state.seed = seed; }
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;
  /// Moves to the start of the stream of `seed`.
  /// Throws CaptureError in a step that is being captured.
  void manual_seed(std::uint64_t seed);
  /// Returns the position of the next `n` 32-bit words, and advances past them.
  PhiloxState take(std::int64_t n);
  /// Returns the position of `n` words for a tensor on `device`. A meta device does not advance the generator, so a
  /// prediction leaves the numbers of the run unchanged.
  PhiloxState take(std::int64_t n, Device device);
  /// Returns the current position, for set_state().
  PhiloxState state() const;
  /// Moves to the position of state().
  /// Throws CaptureError in a step that is being captured.
  void set_state(PhiloxState s);
  /// Returns state() as two numbers, "seed" and "offset", for a checkpoint. Their 64 bits are stored as signed
  /// integers.
  StateDict state_dict() const;
  /// Moves to the position of a state_dict().
  /// Throws ValueError if a name is missing or unexpected.
  /// Throws CaptureError in a step that is being captured.
  void load_state_dict(const StateDict& state);

  /// The current position, shared with captured steps that draw from it.
  struct Place {
    std::mutex mutex;
    PhiloxState state;
  };

 private:
  PhiloxState advance(std::int64_t n);

  std::shared_ptr<Place> place_ = std::make_shared<Place>();
};

/// Returns the generator that ops and initialisers use by default: that of the thread's innermost DefaultGenerator, or
/// the one that all threads share. Initial seed: 0.
Generator& default_generator();
/// Moves the default generator to the start of the stream of `seed` (torch.manual_seed).
void manual_seed(std::uint64_t seed);

/// Sets default_generator() on this thread while it lives. Threads with a generator each draw the same numbers whether
/// they run in parallel or one after the other.
class DefaultGenerator {
 public:
  /// `generator` must outlive the scope.
  [[nodiscard]] explicit DefaultGenerator(Generator& generator);
  ~DefaultGenerator();
  DefaultGenerator(const DefaultGenerator&) = delete;
  DefaultGenerator& operator=(const DefaultGenerator&) = delete;

 private:
  Generator* previous_;
};

}  // namespace bytetape
