#include "bytetape/core/memory/recording/work_counter.h"

#include <algorithm>
#include <mutex>
#include <tuple>
#include <utility>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/memory/allocator.h"
#include "bytetape/core/memory/ambient.h"
#include "bytetape/core/memory/ledger/thread_number.h"
#include "bytetape/core/memory/ledger/track.h"
#include "bytetape/core/memory/recording/recording_hooks.h"
#include "bytetape/core/memory/work.h"

namespace bytetape::memory {
namespace {

Precision precision_of(Device device, DType factors) {
  switch (factors) {
    case DType::f64:
      return Precision::f64;
    case DType::bf16:
      return Precision::bf16;
    case DType::f16:
      return Precision::f16;
    default: {
      const auto rounds = backend(device).rounds_to_tf32;
      return rounds && rounds() ? Precision::tf32 : Precision::f32;
    }
  }
}

}  // namespace

const char* to_string(Precision p) {
  constexpr const char* text[] = {"f64", "f32", "tf32", "bf16", "f16"};
  return text[static_cast<int>(p)];
}

/// Adds work to the steps that count it: that of the prediction, and that of the recording.
static void add_to_steps(const WorkKey& key, const WorkSum& sum) {
  if (ambient.predicted_work) ambient.predicted_work->add(key, sum);
  if (is_recording.load(std::memory_order_relaxed) && marks().counts_here()) work_counter().add(key, sum);
}

void count_work(Device device, const Work& work) {
  const ScopeIds& scope = ambient.scope;
  const WorkKey key{device, scope.module, scope.op, scope.phase,
                    work.flop ? precision_of(device, work.dtype) : Precision::f32};
  const WorkSum sum{1, work.flop, work.bytes};
  if (ambient.captured_work && ambient.captured_work->is_of(device))
    ambient.captured_work->add(key, sum);
  else
    add_to_steps(key, sum);
}

// ---- captured steps

bool WorkKey::operator<(const WorkKey& other) const {
  const auto fields = [](const WorkKey& k) {
    return std::tuple(k.device.type, k.device.index, k.device.is_meta, k.module, k.op, k.phase, k.precision);
  };
  return fields(*this) < fields(other);
}

void WorkSum::operator+=(const WorkSum& other) {
  launches += other.launches;
  flop += other.flop;
  bytes += other.bytes;
}

void CapturedWork::count_replay() const {
  if (!work_counters.load(std::memory_order_relaxed)) return;
  for (const auto& [key, sum] : sums_) add_to_steps(key, sum);
}

// ---- predicted steps

std::vector<WorkCount> PredictedWork::of(Device device, std::size_t steps) const {
  WorkSums sums;
  for (std::size_t i = steps_.size() - std::min(steps, steps_.size() - 1); i < steps_.size(); ++i)
    for (const auto& [key, sum] : steps_[i]) sums[key] += sum;
  std::vector<WorkCount> rows;
  for (const auto& [key, sum] : sums)
    if (key.device == device)
      rows.push_back({.module = key.module,
                      .op = key.op,
                      .launches = sum.launches,
                      .phase = key.phase,
                      .precision = key.precision,
                      .flop = sum.flop,
                      .bytes = sum.bytes});
  return rows;
}

// ---- recordings

void WorkCounter::start() {
  const std::lock_guard lock(mutex_);
  runs_ = true;
  open_.clear();
  sums_.clear();
  ended_.clear();
}

void WorkCounter::stop() {
  const std::lock_guard lock(mutex_);
  runs_ = false;
}

void WorkCounter::begin(const Allocator& device, std::uint32_t number) {
  const std::uint64_t thread = thread_number();
  const std::lock_guard lock(mutex_);
  if (runs_) open_.begin({&device, thread, number, true});
}

void WorkCounter::end(const Allocator& device, std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  if (!runs_) return;
  if (const auto step = open_.end(device, number)) close(*step);
}

void WorkCounter::close(const OpenSteps::Open& step) {
  auto work = sums_.extract(key(step));
  ended_.push_back({step.device->device(), step.number, now(), work ? std::move(work.mapped()) : WorkSums()});
}

void WorkCounter::forget(const Allocator& device) {
  const std::lock_guard lock(mutex_);
  open_.forget(device);
  std::erase_if(sums_, [&](const auto& sum) { return std::get<0>(sum.first) == &device; });
}

void WorkCounter::add(const WorkKey& key, const WorkSum& sum) {
  const std::lock_guard lock(mutex_);
  const OpenSteps::Open* const step = runs_ ? open_.of_this_thread() : nullptr;
  if (step) sums_[WorkCounter::key(*step)][key] += sum;
}

std::vector<WorkCounter::Counted> WorkCounter::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(ended_, {});
}

WorkCounter& work_counter() {
  static auto* const counter = new WorkCounter;
  return *counter;
}

}  // namespace bytetape::memory
