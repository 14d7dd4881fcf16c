#pragma once
#include <cstdint>
#include <memory>
#include <mutex>

#include "bytetape/core/device/device.h"

namespace bytetape {

struct StateDict;

/// Where a kernel starts in the Philox 4x32-10 stream (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
/// SC'11): counter `offset` onwards under key `seed`, four 32-bit words a counter. Element i of the row-major order
/// takes word i, or words 2i and 2i + 1 where it needs 64 bits (low half first), so the bits depend neither on the
/// thread count nor on strides or device.
struct PhiloxState {
  std::uint64_t seed = 0, offset = 0;
  /// Of a captured step: device memory with the state at the start of each replay. The seed is its, and `offset` counts
  /// from its.
  const PhiloxState* start = nullptr;
};

/// Hands out non-overlapping stretches of one Philox stream. Thread-safe.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) { place_->state.seed = seed; }
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;
  /// Goes to the start of the stream of `seed`. Throws CaptureError within a step that is being captured.
  void manual_seed(std::uint64_t seed);
  /// A start for `n` 32-bit words; advances past them.
  PhiloxState take(std::int64_t n);
  /// The same, for a tensor on `device`. For a meta tensor none are taken: a prediction leaves the numbers of the run
  /// as they are.
  PhiloxState take(std::int64_t n, Device device);
  /// Where the stream stands; set_state() goes back there.
  PhiloxState state() const;
  /// Throws CaptureError within a step that is being captured.
  void set_state(PhiloxState s);
  /// The same as two numbers, "seed" and "offset", for a checkpoint: 64 bits each, as the integer that they are.
  StateDict state_dict() const;
  /// Throws ValueError where one is missing or another is there, CaptureError within a step that is being captured.
  void load_state_dict(const StateDict& state);

  /// Where a stream stands; captured steps that draw from it share it.
  struct Place {
    std::mutex mutex;
    PhiloxState state;
  };

 private:
  PhiloxState advance(std::int64_t n);

  std::shared_ptr<Place> place_ = std::make_shared<Place>();
};

/// The generator of every op and initialiser that is not given one: the thread's innermost DefaultGenerator, else one
/// that all threads share. Seed 0 at start.
Generator& default_generator();
/// Goes to the start of the stream of `seed` in the default generator (torch.manual_seed).
void manual_seed(std::uint64_t seed);

/// Sets default_generator() for a C++ scope on this thread. With one each, models that are trained by several threads
/// draw the same numbers as one after the other.
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
