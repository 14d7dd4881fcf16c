#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "bytetape/core/device/device.h"
#include "bytetape/core/memory/device_work.h"

namespace bytetape::memory {

/// A step that is timed. Each device numbers its own.
struct TimedStep {
  Device device;
  std::uint32_t number = 0;  ///< 0: none
};

/// Device work as a timer reports it. Its times are those of now(), and its names are NameIds of the process.
struct TimedWork {
  Device device;
  TimedStep step;
  DeviceWork work;  ///< without `device`, `step` and `step_device`
};

/// Times the work that this process launches on devices of one type. Backends implement it. StepTimer calls all member
/// functions but the constructor, one at a time.
class DeviceTimer {
 public:
  /// The recording that uses the timer. Both functions may be called by any thread, between start() and stop().
  struct Listener {
    /// Returns the timed step that the thread's launches belong to. If its number is 0, they are not timed.
    std::function<TimedStep()> step;
    /// Takes work that the device has done, in any order.
    std::function<void(std::vector<TimedWork>)> deliver;
  };

  virtual ~DeviceTimer() = default;

  /// Begins a recording. Graphs that are captured from now on remember the scope of each of their kernels.
  /// Throws DeviceError if another tool uses the driver's profiling library.
  virtual void start(Listener listener) = 0;
  /// Times the work that is launched from now on.
  virtual void begin() = 0;
  /// Ends begin(). Does not wait: work that was launched before is timed when it runs.
  virtual void end() = 0;
  /// Delivers work that has been done, as far as the device has written its records. Called often, by any thread.
  virtual void poll() = 0;
  /// Waits for the work of timed steps that was launched so far and delivers it. Also between begin() and end().
  virtual void flush() = 0;
  /// Ends the recording. Drops what was not delivered.
  /// Throws DeviceError if a call failed since start(). Other calls do not throw, because a step ends in a destructor.
  virtual void stop() = 0;
};

}  // namespace bytetape::memory
