#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "bytetape/core/memory/recording/device_timer.h"
#include "bytetape/cuda/timer/cupti.h"
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
  /// Returns Listener::step; 0 if no recording runs.
  std::uint32_t step();

 private:
  struct Callback {
    CUpti_CallbackDomain domain;
    CUpti_CallbackId id;
  };
  void find_launches();
  void watch_launches(bool on);
  void collect(bool on);
  void guarded(const std::function<void()>& call);

  std::vector<Callback> launches_;  // the calls that launch work
  CUpti_SubscriberHandle subscriber_ = nullptr;
  bool watches_ = false, collects_ = false;
  PendingWork pending_;  // work of timed steps. Records are collected until it is done
  std::exception_ptr failure_;

  LaunchScopes scopes_;
  std::mutex mutex_;  // guards the member below
  std::optional<Listener> listener_;
};

/// Returns the timer of the process.
/// Throws DeviceError if CUPTI cannot be loaded.
CuptiTimer& cupti_timer();

}  // namespace bytetape::cuda
