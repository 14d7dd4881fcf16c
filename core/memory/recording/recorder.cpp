#include "bytetape/core/memory/recording/recorder.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/recording/step_timer.h"
#include "bytetape/core/memory/recording/work_counter.h"

namespace bytetape::memory {

Recorder::Recorder(const std::string& path, const std::string& program, const MetaAllocators* of,
                   std::shared_ptr<StepTimer> timer)
    : timer_(std::move(timer)), writer_(path, program) {
  marks().start(start_, of);
  thread_ = std::thread([this] { run(); });
}

Recorder::~Recorder() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(waiting_);
    ends_ = true;
  }
  wakes_.notify_one();
  thread_.join();
}

void Recorder::add_ceilings(const std::vector<Ceilings>& all) {
  const std::lock_guard lock(writing_);
  guarded([&] {
    for (const Ceilings& c : all) writer_.ceilings(c);
  });
}

void Recorder::attach(Allocator& a) {
  Track* track = nullptr;
  {
    const std::lock_guard lock(writing_);
    const std::uint32_t number = devices_made_++;
    numbers_[a.name()] = number;
    auto sink = [this, number](std::vector<Record> records) { push({number, std::move(records)}); };
    track = devices_.try_emplace(&a, Device{number, std::make_unique<Track>(start_, sink)}).first->second.track.get();
    guarded([&] { writer_.device(a.name(), a.capacity(), a.limit()); });
  }
  a.record_to(track);
}

void Recorder::detach(Allocator& a) {
  a.record_to(nullptr);
  const Statistics books = a.statistics();
  const std::optional<Outside> outside = a.outside();
  const External external = a.external();
  const std::lock_guard lock(writing_);
  const auto at = devices_.find(&a);
  drain();
  guarded([&] { writer_.device_end(at->second.number, books, outside, external); });
  devices_.erase(at);
}

// Writes the events under the old limit before the new limit.
void Recorder::note_limit(const Allocator& a) {
  const std::lock_guard lock(writing_);
  const auto at = devices_.find(&a);
  if (at == devices_.end()) return;
  drain();
  guarded([&] { writer_.limit(at->second.number, a.limit()); });
}

void Recorder::stop_device_times() {
  if (!timer_) return;
  try {
    timer_->stop();
  } catch (...) { timer_failure_ = std::current_exception(); }
  const std::lock_guard lock(writing_);
  drain();
}

void Recorder::flush() {
  const std::lock_guard lock(writing_);
  drain();
  if (failure_) std::rethrow_exception(failure_);
}

void Recorder::finish() {
  {
    const std::lock_guard lock(waiting_);
    ends_ = true;
  }
  wakes_.notify_one();
  thread_.join();
  guarded([&] { writer_.end(); });
  if (failure_) std::rethrow_exception(failure_);
  if (timer_failure_) std::rethrow_exception(timer_failure_);
}

void Recorder::push(Chunk c) {
  {
    const std::lock_guard lock(waiting_);
    queue_.push_back(std::move(c));
  }
  wakes_.notify_one();
}

void Recorder::run() {
  using namespace std::chrono_literals;
  for (bool last = false; !last;) {
    {
      std::unique_lock lock(waiting_);
      wakes_.wait_for(lock, 200ms, [&] { return ends_ || !queue_.empty(); });
      last = ends_;
    }
    poll_timer();
    const std::lock_guard lock(writing_);
    drain();
  }
}

/// Fetches device work, at most five times a second. Holds no lock, because the timer may wait for a step's thread.
void Recorder::poll_timer() {
  constexpr std::uint64_t rest = 190'000'000;  // nanoseconds
  if (!timer_ || now() < polled_ + rest) return;
  timer_->poll();
  polled_ = now();
}

void Recorder::drain() {
  for (const auto& [allocator, device] : devices_) device.track->flush();
  std::vector<Chunk> chunks;
  {
    const std::lock_guard lock(waiting_);
    chunks.swap(queue_);
  }
  const std::vector<Mark> scopes = marks().take();
  const std::vector<DeviceWork> work = timer_ ? in_file(timer_->take()) : std::vector<DeviceWork>();
  const std::vector<WorkCounter::Counted> counted = work_counter().take();
  guarded([&] {
    for (const Chunk& c : chunks) writer_.records(c.device, c.records);
    writer_.marks(scopes);
    writer_.device_work(work);
    write_counts(counted);
    writer_.flush();
  });
}

/// Converts work to the file's times and devices. Leaves out work of devices without an allocator.
std::vector<DeviceWork> Recorder::in_file(const std::vector<TimedWork>& timed) const {
  std::vector<DeviceWork> all;
  for (const auto& [device, step, work] : timed) {
    const auto number = numbers_.find(to_string(device)), of_step = numbers_.find(to_string(step.device));
    if (number == numbers_.end() || of_step == numbers_.end()) continue;
    DeviceWork& w = all.emplace_back(work);
    w.device = number->second;
    w.step = step.number;
    w.step_device = of_step->second;
    w.begin -= std::min(start_, w.begin);  // the timer's clock may be off by some microseconds
    w.end = std::max(w.begin, w.end - std::min(start_, w.end));
  }
  return all;
}

/// Writes the work of steps that ended. Leaves out steps and work of devices without an allocator.
void Recorder::write_counts(const std::vector<WorkCounter::Counted>& counted) {
  std::vector<CountedStep> steps;
  for (const WorkCounter::Counted& step : counted) {
    const auto its = numbers_.find(to_string(step.device));
    if (its == numbers_.end()) continue;
    std::vector<WorkCount> rows;
    for (const auto& [key, sum] : step.work)
      if (const auto device = numbers_.find(to_string(key.device)); device != numbers_.end())
        rows.push_back(
            {0, device->second, key.module, key.op, sum.launches, key.phase, key.precision, sum.flop, sum.bytes});
    const auto [table, is_new] = tables_.number_of(rows);
    if (is_new) writer_.work_counts(rows);
    steps.push_back({step.time - std::min(start_, step.time), step.number, its->second, table});
  }
  writer_.counted_steps(std::move(steps));
}

void Recorder::guarded(const std::function<void()>& write) {
  if (failure_) return;
  try {
    write();
  } catch (...) { failure_ = std::current_exception(); }
}

}  // namespace bytetape::memory
