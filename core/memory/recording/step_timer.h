#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "bytetape/core/memory/recording/device_timer.h"
#include "bytetape/core/memory/recording/open_steps.h"

namespace bytetape::memory {

class Allocator;

/// Chooses the steps of a recording that a DeviceTimer times, and collects their work until the recorder takes it. The
/// steps of each device are counted on their own. OpenSteps defines the step that a thread works for.
class StepTimer {
 public:
  /// Starts `timer` and times every `every`-th step of each device, counted from 1. `every` must not be 0.
  /// Throws DeviceError if the timer cannot start.
  StepTimer(DeviceTimer& timer, std::uint32_t every);
  ~StepTimer();
  StepTimer(const StepTimer&) = delete;
  StepTimer& operator=(const StepTimer&) = delete;

  /// Notes that this thread began step `number` on a device. The allocator stands for the device.
  void begin(const Allocator& device, std::uint32_t number);
  /// Notes that a step is about to end. Does nothing if it began before the recording.
  void end(const Allocator& device, std::uint32_t number);
  /// Forgets the open steps of an allocator that is destroyed.
  void forget(const Allocator& device);
  /// Fetches work that has been done, for take().
  void poll();
  /// Waits for the work of timed steps, for take().
  void flush();
  /// Waits like flush() and ends the timing.
  /// Throws DeviceError if the timer failed.
  void stop();
  /// Returns the work that arrived since the last call.
  std::vector<TimedWork> take();

 private:
  TimedStep step_of_this_thread() const;
  void control_timer();

  DeviceTimer& timer_;
  const std::uint32_t every_;

  std::mutex control_;  // held to call timer_; locked before steps_mutex_. No function of a Listener locks it
  bool runs_ = true, is_timing_ = false;

  mutable std::mutex steps_mutex_;
  OpenSteps open_;
  std::map<const Allocator*, std::uint64_t> begun_;  // number of steps begun on each device

  std::mutex work_mutex_;
  std::vector<TimedWork> work_;
};

/// Returns the timer of GPUs' work.
/// Throws DeviceError, with the reason, if their work cannot be timed.
DeviceTimer& device_timer();

}  // namespace bytetape::memory
