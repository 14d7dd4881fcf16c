#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace bytetape::memory {

class Allocator;

/// The open steps of a recording, and the threads that began them. Not thread-safe.
class OpenSteps {
 public:
  struct Open {
    const Allocator* device;  ///< the allocator of the device that numbered the step
    std::uint64_t thread;
    std::uint32_t number;
    bool is_timed;
  };

  /// Adds a step. The thread has no open step of the same device.
  void begin(const Open& step) { open_.push_back(step); }
  /// Removes a step of this thread, or else of another one, which may end it. Returns nothing if no such step is open,
  /// because it began before the recording.
  std::optional<Open> end(const Allocator& device, std::uint32_t number);
  /// Removes the steps of an allocator that is about to be destroyed.
  void forget(const Allocator& device);
  /// The step that this thread works for: its last begun one of a GPU, or else its last begun one. A thread without a
  /// step, such as the one that reduces gradients, works for the step that has been open longest, a GPU's if there is
  /// one. Null if no step is open.
  const Open* of_this_thread() const;
  bool any_is_timed() const;
  void clear() { open_.clear(); }

 private:
  using Steps = std::vector<Open>;
  Steps::iterator of(const Allocator& device, std::uint64_t thread);

  Steps open_;  // the oldest first
};

}  // namespace bytetape::memory
