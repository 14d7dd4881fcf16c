#include "bytetape/core/memory/recording/step_timer.h"

#include <exception>
#include <iterator>
#include <utility>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/error.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/ledger/thread_number.h"

namespace bytetape::memory {

StepTimer::StepTimer(DeviceTimer& timer, std::uint32_t every) : timer_(timer), every_(every) {
  timer_.start({.step = [this] { return step_of_this_thread(); },
                .deliver =
                    [this](std::vector<TimedWork> work) {
                      const std::lock_guard lock(work_mutex_);
                      work_.insert(work_.end(), std::make_move_iterator(work.begin()),
                                   std::make_move_iterator(work.end()));
                    }});
}

StepTimer::~StepTimer() {
  try {
    stop();
  } catch (const std::exception&) {}  // the recorder has stopped it, unless the file could not be written
}

void StepTimer::begin(const Allocator& device, std::uint32_t number) {
  const std::lock_guard control(control_);
  if (!runs_) return;
  {
    const std::lock_guard lock(steps_mutex_);
    const bool is_timed = ++begun_[&device] % every_ == 0;
    open_.begin({&device, thread_number(), number, is_timed});
  }
  control_timer();
  if (!is_timing_) timer_.poll();
}

void StepTimer::end(const Allocator& device, std::uint32_t number) {
  const std::lock_guard control(control_);
  if (!runs_) return;
  {
    const std::lock_guard lock(steps_mutex_);
    if (!open_.end(device, number)) return;
  }
  control_timer();
}

void StepTimer::forget(const Allocator& device) {
  const std::lock_guard control(control_);
  if (!runs_) return;
  {
    const std::lock_guard lock(steps_mutex_);
    open_.forget(device);
    begun_.erase(&device);
  }
  control_timer();
}

void StepTimer::poll() {
  const std::lock_guard control(control_);
  if (runs_) timer_.poll();
}

void StepTimer::flush() {
  const std::lock_guard control(control_);
  if (runs_) timer_.flush();
}

void StepTimer::stop() {
  const std::lock_guard control(control_);
  if (!std::exchange(runs_, false)) return;
  if (std::exchange(is_timing_, false)) timer_.end();
  timer_.flush();
  timer_.stop();
}

std::vector<TimedWork> StepTimer::take() {
  const std::lock_guard lock(work_mutex_);
  return std::exchange(work_, {});
}

TimedStep StepTimer::step_of_this_thread() const {
  const std::lock_guard lock(steps_mutex_);
  const OpenSteps::Open* const own = open_.of_this_thread();
  return own && own->is_timed ? TimedStep{own->device->device(), own->number} : TimedStep{};
}

/// Begins or ends the timing, as the open steps require.
void StepTimer::control_timer() {
  const bool any = [&] {
    const std::lock_guard lock(steps_mutex_);
    return open_.any_is_timed();
  }();
  if (std::exchange(is_timing_, any) == any) return;
  if (any)
    timer_.begin();
  else
    timer_.end();
}

DeviceTimer& device_timer() {
  const auto of_gpus = backend(Device::cuda()).device_timer;
  check<DeviceError>(of_gpus != nullptr, "device times: the backend of cuda cannot time its work");
  return of_gpus();
}

}  // namespace bytetape::memory
