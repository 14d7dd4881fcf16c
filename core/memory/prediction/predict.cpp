#include "bytetape/core/memory/predict.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bytetape/core/device/capture.h"
#include "bytetape/core/device/default_device.h"
#include "bytetape/core/images/draws.h"
#include "bytetape/core/memory/allocator/meta_allocators.h"
#include "bytetape/core/memory/allocator/pool.h"
#include "bytetape/core/memory/ambient.h"
#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/memory/peak.h"
#include "bytetape/core/memory/prediction/repeats.h"
#include "bytetape/core/memory/recording.h"
#include "bytetape/core/memory/recording/captured_work.h"
#include "bytetape/core/memory/recording/recorder.h"
#include "bytetape/core/memory/replay.h"
#include "bytetape/core/parallel.h"
#include "bytetape/core/random.h"
#include "bytetape/core/setting.h"

namespace bytetape::memory {
namespace {

using bytetape::detail::core_ambient;
using bytetape::detail::Setting;

constexpr std::size_t log_capacity = std::size_t{1} << 18;  // events: some hundred steps of a ResNet-18

/// Sets num_threads() for a C++ scope.
class Threads {
 public:
  explicit Threads(int n) : previous_(num_threads()) {
    if (n) set_num_threads(n);
  }
  ~Threads() { set_num_threads(previous_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int previous_;
};

/// Draws what the default generator would draw next.
struct CopiedGenerator : Generator {
  CopiedGenerator() { set_state(default_generator().state()); }
};

/// Gives this thread the state of a new thread, with its own meta devices, for a C++ scope.
class FreshThread {
 public:
  FreshThread(Device meta, MetaAllocators& meta_allocators, bytetape::detail::SimulatedRank rank)
      : memory_(ambient.meta_allocators, &meta_allocators), here_(meta), rank_(core_ambient.simulated_rank, rank) {}

 private:
  const Setting<MetaAllocators*> memory_;
  const DefaultDevice here_;
  const Setting<bytetape::detail::SimulatedRank> rank_;
  CopiedGenerator generator_;
  const ScopeGuard scope_{ScopeIds{}};
  const OutsidePools pools_;
  const Setting<const ModuleCell*> module_{ambient.running_module, nullptr};
  const Setting<bytetape::detail::StepWatch*> watch_{core_ambient.step_watch, nullptr};
  const Setting<bytetape::detail::SavedWatch*> saved_{core_ambient.saved_watch, nullptr};
  const Setting<bytetape::detail::Draws*> draws_{core_ambient.draws, nullptr};
  const DefaultGenerator drawn_from_{generator_};
};

/// Records a prediction's memory events in a file if the options name one.
class Taken {
 public:
  Taken(const PredictOptions& o, const MetaAllocators& meta_allocators) {
    if (!o.recording.empty()) recorder_ = start_recorder(o.recording, o.program, &meta_allocators, {});
  }
  /// Finishes the file if an exception ended the prediction. That exception is more important than an error here.
  ~Taken() {
    try {
      finish();
    } catch (const std::exception&) {}
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;

  void add(Allocator& a) {
    if (!recorder_) return;
    recorder_->attach(a);
    attached_.push_back(&a);
  }
  void finish() {
    if (!recorder_) return;
    for (Allocator* a : attached_) recorder_->detach(*a);
    finish_recorder(std::move(recorder_));
  }

 private:
  std::unique_ptr<Recorder> recorder_;
  std::vector<Allocator*> attached_;
};

class Rehearsal {
 public:
  Rehearsal(Device device, const PredictOptions& options)
      : meta_(Device::meta(device)), options_(options), threads_(options.threads), taken_(options, all_) {
    p_.device = {device.type, device.index, false};
    p_.threads = num_threads();
    Allocator& books = all_.allocator(meta_);
    books.reset_log(log_capacity);
    books.set_limit(options.limit);
    taken_.add(books);
    all_.on_made([this](Allocator& a) { taken_.add(a); });
  }

  Prediction run(const std::function<void(const detail::TakeSteps&)>& program) {
    const FreshThread fresh(meta_, all_, {true, options_.rank, options_.world_size});
    const PredictedWork::Scope counts(work_);
    unless_memory_runs_out([&] { program([this](const auto& step) { take_steps(step); }); });
    taken_.finish();
    for (const Allocator* books : all_.all())
      if (books != &all_.allocator(meta_) && books->statistics().allocations) p_.others.push_back(books->snapshot());
    return std::move(p_);
  }

 private:
  // Reads the statistics before the program frees its memory.
  void take_steps(const std::function<void()>& step) {
    look();
    unless_memory_runs_out([&] {
      const auto taken = [this] { return static_cast<int>(p_.steps.size()); };
      while (taken() < options_.max_steps && !(p_.is_settled() && taken() >= options_.min_steps)) {
        p_.steps.push_back({.first_event = p_.snapshot.events.size()});
        work_.begin_step();
        step();
        look();
        p_.period = repeats_.period();
      }
    });
    taken_.finish();
    p_.work = work_.of(meta_, std::max<std::size_t>(p_.period, 1));
    measure_steps();
  }

  template <class F>
  void unless_memory_runs_out(const F& f) {
    try {
      f();
    } catch (const OutOfMemory& e) {
      if (e.shortage().device != meta_) throw;
      p_.out_of_memory = e;
      p_.period = 0;
      look();
    }
  }

  void look() {
    p_.snapshot = all_.allocator(meta_).snapshot();
    repeats_.look(p_.snapshot);
    if (!p_.steps.empty()) p_.steps.back().end_event = p_.snapshot.events.size();
  }

  void measure_steps() {
    Replay books;
    std::size_t at = 0;
    const auto& events = p_.snapshot.events;
    for (PredictedStep& step : p_.steps) {
      while (at < step.first_event) books.apply(events[at++]);
      PeakFinder peak(books.allocated());
      for (std::size_t i = step.first_event; i < step.end_event; ++i) peak.see(events[i]);
      step.allocated = peak.bytes();
      for (;; books.apply(events[at++])) {
        if (at == step.first_event + peak.end()) step.by_role = books.by_role();
        step.reserved = std::max(step.reserved, books.reserved());
        if (at == step.end_event) break;
      }
    }
  }

  const Device meta_;
  const PredictOptions options_;
  const Threads threads_;
  MetaAllocators all_;
  Taken taken_;  // destroyed before all_
  Repeats repeats_;
  PredictedWork work_;
  Prediction p_;
};

}  // namespace

Prediction detail::predict(Device device, const std::function<void(const TakeSteps&)>& program,
                           const PredictOptions& options) {
  bytetape::detail::refuse_in_capture("predicts memory");
  check<ValueError>(options.max_steps >= 1, "predict: expected max_steps >= 1, got ", options.max_steps);
  check<ValueError>(options.world_size >= 0 && options.rank >= 0 && options.rank < std::max(options.world_size, 1),
                    "predict: expected a rank below the world size, got rank ", options.rank, " of ",
                    options.world_size);
  return Rehearsal(device, options).run(program);
}

namespace {
enum class Tried { fits, fragmented, too_large };
}  // namespace

Largest detail::largest(std::int64_t low, std::int64_t high,
                        const std::function<Prediction(std::int64_t)>& predict_for) {
  check<ValueError>(1 <= low && low <= high, "largest: expected 1 <= low <= high, got ", low, " and ", high);
  Largest best{std::nullopt, predict_for(low)};
  if (!best.prediction.fits()) return best;
  best.n = low;
  const auto try_n = [&](std::int64_t n) {
    Prediction p = predict_for(n);
    if (!p.fits()) return p.out_of_memory->shortage().fragmented() ? Tried::fragmented : Tried::too_large;
    best = {n, std::move(p)};
    return Tried::fits;
  };
  // If fragmentation stops n, a larger n may fit again, because its blocks are placed differently.
  std::int64_t too_large = high + 1;
  for (std::int64_t n = low; n < high;) {
    n = n > high / 2 ? high : 2 * n;
    const Tried tried = try_n(n);
    if (tried == Tried::fits)
      too_large = high + 1;
    else
      too_large = std::min(too_large, n);
    if (tried == Tried::too_large) break;
  }
  while (too_large - *best.n > 1) {
    const std::int64_t n = *best.n + (too_large - *best.n) / 2;
    if (try_n(n) != Tried::fits) too_large = n;
  }
  return best;
}

}  // namespace bytetape::memory
