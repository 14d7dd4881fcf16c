#include "examples/timed_advice.h"

#include <bytetape/core/memory/advice.h>
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

/// The savings of the checkpoints that `advice` has.
std::vector<nn::Saving> checkpoints_in(const std::vector<std::string>& advice, const memory::Log& log) {
  std::vector<nn::Saving> all;
  for (const memory::DeviceLog& d : log.devices)
    for (const memory::Advice& a : memory::advise(log, d)) {
      const std::string text = a.text();
      if (std::ranges::none_of(advice, [&](const std::string& t) { return t.find(text) != t.npos; })) continue;
      all.push_back({.memory_option = text.substr(0, text.find(": peak ")),
                     .memory_options = {.checkpointed = a.modules},
                     .peak = a.peak,
                     .peak_then = a.peak_then});
    }
  return all;
}

/// Gives sentences about checkpoints their measured times in place of the time of the modules' forward.
void replace_times(std::vector<std::string>& advice, const nn::Saving& s) {
  if (!s.step_time || !s.step_time_then) return;
  for (std::string& text : advice) {
    const std::size_t at = text.find(s.memory_option + ": peak ");
    if (at == text.npos) continue;
    const std::size_t end = std::min(text.find(';', at), text.find('\n', at));
    text.replace(at, end - at, s.text());
  }
}

}  // namespace

void time_advice(std::vector<std::string>& advice, std::vector<nn::Saving>& savings, const memory::Log& log,
                 const Example& example, const Options& o, const TrainingData& data) {
  std::vector<nn::Saving> all = checkpoints_in(advice, log);
  const std::size_t checkpoints = all.size();
  all.insert(all.end(), savings.begin(), savings.end());
  if (all.empty()) return;
  fmt::print("timing steps without and with each piece of advice\n");
  std::fflush(stdout);
  nn::time_savings(all, Device::parse(o.device), [&](const nn::MemoryOptions& memory_options) {
    Options with = o;
    with.memory_options = o.memory_options.with(memory_options);
    return FreshTraining(example, with, data);
  });
  for (std::size_t i = 0; i < checkpoints; ++i) replace_times(advice, all[i]);
  std::move(all.begin() + static_cast<std::ptrdiff_t>(checkpoints), all.end(), savings.begin());
}

}  // namespace bytetape::examples
