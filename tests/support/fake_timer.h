#pragma once
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/error.h"
#include "bytetape/core/memory/ambient.h"
#include "bytetape/core/memory/ledger/track.h"
#include "bytetape/core/memory/recording/device_timer.h"

namespace bytetape::test {

/// A timer of work that only tests launch, on the CPU. Like a GPU, it delivers work some time after its launch.
class FakeTimer final : public memory::DeviceTimer {
 public:
  void start(Listener listener) override {
    log("start");
    check<DeviceError>(obstacle.empty(), obstacle);
    listener_ = std::move(listener);
  }
  void begin() override { log("begin"), times_ = true; }
  void end() override { log("end"), times_ = false; }
  void poll() override { deliver(); }  // not logged, because the recorder's thread calls it by the clock
  void flush() override { log("flush"), deliver(); }
  void stop() override {
    log("stop");
    listener_.reset();
    if (!failure.empty()) fail<DeviceError>(failure);
  }

  /// Launches a kernel of the running scope, which takes `ns`. The next kernel begins after it.
  void launch(const std::string& kernel, std::uint64_t ns) {
    if (!listener_ || !times_) return;
    const memory::TimedStep step = listener_->step();
    if (step.number == 0) return;
    const std::lock_guard lock(mutex_);
    const memory::ScopeIds& s = memory::ambient.scope;
    const std::uint64_t begin = std::max(memory::now(), free_);
    free_ = begin + ns;
    work_.push_back({Device::cpu(),
                     step,
                     {.begin = begin,
                      .end = free_,
                      .name = memory::intern(kernel),
                      .module = s.module,
                      .op = s.op,
                      .phase = s.phase}});
  }

  std::vector<std::string> calls;
  std::string obstacle, failure;  // what start() and stop() throw

 private:
  void log(const char* call) { calls.emplace_back(call); }
  void deliver() {
    const std::lock_guard lock(mutex_);
    listener_->deliver(std::exchange(work_, {}));
  }

  std::optional<Listener> listener_;
  std::mutex mutex_;  // guards the members below
  std::vector<memory::TimedWork> work_;
  std::uint64_t free_ = 0;
  bool times_ = false;
};

/// Registers a FakeTimer as the timer of GPUs, while it lives.
class FakeGpuTimes {
 public:
  FakeGpuTimes() {
    current() = &timer;
    Backend fake = backend(Device::cuda());
    fake.device_timer = []() -> memory::DeviceTimer& { return *current(); };
    register_backend(DeviceType::cuda, fake);
  }
  ~FakeGpuTimes() { register_backend(DeviceType::cuda, {}); }
  FakeGpuTimes(const FakeGpuTimes&) = delete;
  FakeGpuTimes& operator=(const FakeGpuTimes&) = delete;

  FakeTimer timer;

 private:
  static FakeTimer*& current() {
    static FakeTimer* timer = nullptr;
    return timer;
  }
};

}  // namespace bytetape::test
