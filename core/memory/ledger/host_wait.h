#pragma once
#include <atomic>

#include "bytetape/core/memory/ambient.h"
#include "bytetape/core/memory/recording/recording_hooks.h"

namespace bytetape::memory {

/// The op under which recordings have the time in which the host waits for a device.
inline constexpr char host_wait_name[] = "wait for device";

/// Marks, in a recording, that the host waits for a device while the object lives. So the time is not that of the op
/// that waits. The thread's scope stays as it is.
class HostWait {
 public:
  [[nodiscard]] HostWait() : is_marked_(is_recording.load(std::memory_order_relaxed) && note(true)) {}
  ~HostWait() {
    if (is_marked_) [[unlikely]]
      note(false);
  }
  HostWait(const HostWait&) = delete;
  HostWait& operator=(const HostWait&) = delete;

 private:
  /// Returns false if there is no memory for the mark.
  static bool note(bool begins) noexcept;

  const bool is_marked_;
};

}  // namespace bytetape::memory
