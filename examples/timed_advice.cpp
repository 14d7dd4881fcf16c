#include "examples/timed_advice.h"

#include <fmt/format.h>

#include <cstdio>
#include <limits>
#include <memory>
#include <optional>

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

}  // namespace

void time_savings(std::vector<nn::Saving>& savings, const Example& example, const Options& o,
                  const TrainingData& data) {
  if (savings.empty()) return;
  fmt::print("timing steps with each memory option\n");
  std::fflush(stdout);
  nn::time_savings(savings, Device::parse(o.device), [&](const nn::MemoryOptions& memory_options) {
    Options with = o;
    with.memory_options = o.memory_options.with(memory_options);
    return FreshTraining(example, with, data);
  });
}

}  // namespace bytetape::examples
