#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include "bytetape/core/memory/recording/device_timer.h"
#include "bytetape/cuda/timer/cupti.h"
#include "bytetape/cuda/timer/launch_calls.h"
#include "bytetape/cuda/timer/launch_scopes.h"
#include "bytetape/cuda/timer/pending.h"

namespace bytetape::cuda {

/// Times work with CUPTI. Callbacks tell which scope launches what: calls of the runtime and the driver in timed steps,
/// and nodes of graphs at all times. CUPTI's records of the work have the numbers of both.
class CuptiTimer final : public memory::DeviceTimer {
 public:
  /// Loads CUPTI.
  /// Throws DeviceError if that fails.
  CuptiTimer();

  void start(Listener listener) override;
  void begin() override;
  void end() override;
  void poll() override;
  void flush() override;
  void stop() override;

  /// Takes a buffer of records. CUPTI calls it from any thread.
  void take(std::uint8_t* buffer, std::size_t bytes);
  LaunchScopes& scopes() { return scopes_; }
  /// Returns Listener::step; none if no recording runs.
  memory::TimedStep step();

  /// Calls f and keeps its first error for stop(), because a step ends in a destructor, and CUPTI is written in C.
  template <class F>
  void guarded(const F& f) {
    try {
      f();
    } catch (...) { note_failure(); }
  }

 private:
  void register_once();
  void collect(bool on);
  void take_records(std::uint32_t flags);
  void note_failure();
  std::exception_ptr take_failure();

  std::vector<LaunchCall> launches_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  bool is_registered_ = false, has_records_ = false;
  std::chrono::steady_clock::time_point taken_;  // when poll() last took records, or start()
  PendingWork pending_;                          // work of timed steps, whose records are taken once it is done

  LaunchScopes scopes_;
  std::mutex mutex_;  // guards the members below
  std::optional<Listener> listener_;
  std::exception_ptr failure_;
};

/// Returns the timer of the process.
/// Throws DeviceError if CUPTI cannot be loaded.
CuptiTimer& cupti_timer();

}  // namespace bytetape::cuda
