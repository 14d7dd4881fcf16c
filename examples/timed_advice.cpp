#include "examples/timed_advice.h"

#include <bytetape/core/memory/advice.h>
#include <bytetape/core/memory/allocator.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

namespace bytetape::examples {
namespace {

/// A fresh model, trained step by step.
class FreshTraining {
 public:
  FreshTraining(const Example& example, const Options& o, const TrainingData& data)
      : model_(example.make_model(o)), recipe_(example.make_recipe(*model_, o)) {
    o.memory_options.apply(*model_);
    TrainingOptions endless = o;
    endless.epochs = std::numeric_limits<int>::max();  // schedules have no rate after the last epoch
    run_.emplace(Task{example.name, *model_, example.objective, recipe_, data.training, data.testing}, endless);
    at_.emplace(run_->loader().begin());
  }

  void operator()() {
    if (*at_ == run_->loader().end()) at_.emplace(run_->loader().begin());
    run_->take_step((*at_)->x, (*at_)->y);
    ++*at_;
  }

 private:
  std::unique_ptr<nn::Module> model_;
  Recipe recipe_;
  std::optional<Training> run_;
  std::optional<data::ResidentLoader::Iterator> at_;
};

/// A checkpoint in the advice, and which sentence advises it.
struct AdvisedCheckpoint {
  nn::Saving saving;
  std::string* sentence;
};

/// The checkpoints that `advice` has.
std::vector<AdvisedCheckpoint> checkpoints_in(std::vector<std::string>& advice, const memory::Log& log) {
  std::vector<AdvisedCheckpoint> all;
  for (const memory::DeviceLog& d : log.devices)
    for (const memory::Advice& a : memory::advise(log, d)) {
      const std::string text = a.text();
      const auto at = std::ranges::find_if(advice, [&](const auto& t) { return t.starts_with(d.name + ": " + text); });
      if (at == advice.end()) continue;
      nn::Saving s{.memory_option = text.substr(0, text.find(": peak ")),
                   .memory_options = {.checkpointed = a.modules},
                   .peak = a.peak,
                   .peak_then = a.peak_then};
      all.push_back({std::move(s), &*at});
    }
  return all;
}

/// Replaces the time of the modules' forward in a sentence by the measured time, or removes it if none was measured.
void replace_time(const AdvisedCheckpoint& c) {
  std::string& text = *c.sentence;
  const std::size_t at = text.find(c.saving.memory_option + ": peak "), line = text.find('\n', at);
  text.replace(at, std::min(text.find(';', at), line) - at, c.saving.text());
}

/// Lifts the limit of a device, and restores it.
class LiftedLimit {
 public:
  explicit LiftedLimit(Device device) : device_(device), before_(memory::allocator(device).limit()) {
    memory::set_limit(std::numeric_limits<std::size_t>::max(), device);
  }
  ~LiftedLimit() { memory::set_limit(before_, device_); }
  LiftedLimit(const LiftedLimit&) = delete;
  LiftedLimit& operator=(const LiftedLimit&) = delete;

 private:
  Device device_;
  std::size_t before_;
};

}  // namespace

void time_advice(std::vector<std::string>& advice, std::vector<nn::Saving>& savings, const memory::Log& log,
                 const Example& example, const Options& o, const TrainingData& data) {
  std::vector<AdvisedCheckpoint> checkpoints = checkpoints_in(advice, log);
  std::vector<nn::Saving> all = savings;
  for (const AdvisedCheckpoint& c : checkpoints) all.push_back(c.saving);
  if (all.empty()) return void(fmt::print("no advice to time: nothing lowers the peak by 1 %\n"));
  fmt::print("timing steps without and with {} piece{} of advice\n", all.size(), all.size() == 1 ? "" : "s");
  std::fflush(stdout);
  const Device device = Device::parse(o.device);
  const LiftedLimit lifted(device);
  std::optional<DetectAnomaly> anomaly;
  if (o.detect_anomaly) anomaly.emplace();
  nn::time_savings(all, device, [&](const nn::MemoryOptions& memory_options) {
    Options with = o;
    with.memory_options = o.memory_options.with(memory_options);
    return FreshTraining(example, with, data);
  });
  for (const nn::Saving& s : all) fmt::print("  {}\n", s.text());
  std::copy_n(all.begin(), savings.size(), savings.begin());
  for (std::size_t i = 0; i < checkpoints.size(); ++i) {
    checkpoints[i].saving = all[savings.size() + i];
    replace_time(checkpoints[i]);
  }
  if (std::ranges::any_of(all, [](const nn::Saving& s) { return !s.step_time || !s.step_time_then; }))
    fmt::print("some advice has no time: steps run out of memory beside the trained model\n");
}

}  // namespace bytetape::examples
