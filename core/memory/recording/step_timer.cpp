#include "bytetape/core/memory/recording/step_timer.h"

#include <algorithm>
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
    if (const auto old = own(device); old != open_.end()) open_.erase(old);  // the new step ended it
    const bool is_timed = ++begun_[&device] % every_ == 0;
    open_.push_back({&device, thread_number(), number, is_timed});
  }
  control_timer();
  if (!is_timing_) timer_.poll();
}

void StepTimer::end(const Allocator& device, std::uint32_t number) {
  const std::lock_guard control(control_);
  if (!runs_) return;
  {
    const std::lock_guard lock(steps_mutex_);
    auto at = own(device);
    if (at == open_.end() || at->number != number)  // another thread may end a step
      at = std::find_if(open_.begin(), open_.end(),
                        [&](const Open& o) { return o.device == &device && o.number == number; });
    if (at == open_.end()) return;
    open_.erase(at);
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

/// A thread without a step, such as the one that reduces gradients, works for the step that has been open longest,
/// a GPU's if there is one.
TimedStep StepTimer::step_of_this_thread() const {
  const auto is_of_gpu = [](const Open& o) { return o.device->device().type != DeviceType::cpu; };
  const std::lock_guard lock(steps_mutex_);
  const std::uint64_t thread = thread_number();
  const Open* own = nullptr;
  for (const Open& o : open_)
    if (o.thread == thread && (!own || is_of_gpu(o) || !is_of_gpu(*own))) own = &o;
  if (!own && !open_.empty()) {
    const auto gpu = std::find_if(open_.begin(), open_.end(), is_of_gpu);
    own = gpu == open_.end() ? &open_.front() : &*gpu;
  }
  return own && own->is_timed ? TimedStep{own->device->device(), own->number} : TimedStep{};
}

StepTimer::Steps::iterator StepTimer::own(const Allocator& device) {
  const std::uint64_t thread = thread_number();
  return std::find_if(open_.begin(), open_.end(),
                      [&](const Open& o) { return o.device == &device && o.thread == thread; });
}

/// Begins or ends the timing, as the open steps require.
void StepTimer::control_timer() {
  const bool any = [&] {
    const std::lock_guard lock(steps_mutex_);
    return std::any_of(open_.begin(), open_.end(), [](const Open& o) { return o.is_timed; });
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
