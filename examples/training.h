#pragma once
#include <bytetape/bytetape.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "examples/objective.h"
#include "examples/progress.h"
#include "examples/run_state.h"

namespace bytetape::examples {

/// Options of a training run.
struct TrainingOptions {
  int epochs = 3;
  std::int64_t batch_size = 64;
  std::int64_t accumulated = 1;  // batches whose gradients are added up in a step
  double lr = 1e-3;              // peak learning rate
  double until = 100;            // stop if a test reaches this, as the objective defines
  bool graph = false;            // capture steps
  bool amp = false;              // run steps under Autocast in bf16
  bool detect_anomaly = false;   // throw if a step produces a NaN
  std::uint64_t seed = 0;
  nn::MemoryOptions memory_options;  // options that lower the memory
  std::string checkpoint;            // state file, written on resume, after each epoch and on interrupt
};

/// The optimizer, learning rate schedule and augmentation of a training run.
struct Recipe {
  std::unique_ptr<optim::Optimizer> optimizer;
  double (*lr)(double part) = nullptr;  // fraction of the peak rate after a fraction `part` of the steps
  Augmentation augment = {};            // augmentation of the training images
  double clip = 0;                      // the largest norm of all gradients; 0: any
};

/// A schedule that falls linearly from 1 to 0.
inline double falling(double part) { return 1 - part; }
/// A schedule that rises linearly from 0 to 1 in the first fifth, then falls linearly to 0.
inline double rising_then_falling(double part) { return part < 0.2 ? part / 0.2 : (1 - part) / 0.8; }

/// The results of a training run.
struct TrainingResult {
  data::Position reached;             // position that training has reached
  std::optional<double> test_figure;  // metric after the last epoch; none if interrupted
  double train_seconds = 0;           // duration of the epochs, without the tests between them ...
  double first_to_last_seconds = 0;   // ... and with them
  double rate = 0;                    // in the data's unit

  bool is_finished() const { return test_figure.has_value(); }
};

/// A training step, which may add up the gradients of several batches. Sums loss and score on the device, because
/// reading them in each step would wait for the device.
class TrainingStep {
 public:
  TrainingStep(nn::Module& model, const Recipe& recipe, const Objective& objective, const TrainingOptions& o)
      : model_(model),
        optimizer_(*recipe.optimizer),
        clip_(recipe.clip),
        objective_(objective),
        batches_(o.accumulated),
        computed_(o.amp ? DType::bf16 : DType::f32),
        memory_options_(o.memory_options) {
    if (memory_options_.step_in_backward)
      step_in_backward_.emplace(optimizer_);
    else if (const dist::Group world = dist::init(); world.size() > 1)
      parallel_.emplace(model, world);
  }

  void operator()(const Tensor& inputs, const Tensor& targets);
  void start_epoch();
  /// Return the loss summed over the steps, and the score summed over the examples, of the epoch so far. Both wait for
  /// the device.
  double loss() const { return loss_.item<double>(); }
  double score() const { return score_.item<double>(); }
  /// Returns the two sums, for checkpoints.
  NamedTensors state_dict() const { return {{"loss", loss_}, {"score", score_}}; }

 private:
  struct Forward {
    Tensor loss, output;  // no output if the model computes its loss
  };
  Forward forward(const Tensor& inputs, const Tensor& targets);
  void add_gradients(const Tensor& inputs, const Tensor& targets, bool is_last);

  nn::Module& model_;
  optim::Optimizer& optimizer_;
  double clip_;
  const Objective& objective_;
  std::int64_t batches_;
  DType computed_;
  nn::MemoryOptions memory_options_;
  std::optional<optim::StepInBackward> step_in_backward_;
  std::optional<dist::DataParallel> parallel_;  // if there are several ranks
  Tensor loss_ = zeros({}), score_ = zeros({}, objective_.score_dtype);
};

/// The names of a dataset's examples in outputs, and the unit of its rate.
struct Unit {
  const char* examples = "images";
  const char *rate = "images/s", *short_rate = "img/s", *json_rate = "images_per_s";
  std::int64_t per_example = 1;  // units of the rate in an example
};

/// A model, and the objective, recipe and data that it is trained with.
struct Task {
  std::string name;  // checkpoints are compatible between tasks of the same name
  nn::Module& model;
  const Objective& objective;
  const Recipe& recipe;
  const data::ResidentDataset &training, &testing;
  Unit unit = {};
};

/// Trains a model, and keeps its position. In a program of several ranks, each takes its own batches, and rank 0 tests.
class Training {
 public:
  /// Everything that `task` refers to must outlive the Training.
  /// Throws ValueError if there are no test examples, or fewer training examples than the batches of a step.
  Training(const Task& task, const TrainingOptions& o);

  /// Trains until the last epoch, a test that reaches o.until, or a signal (interrupt.h). Tests after each epoch.
  /// Throws ValueError if an epoch's loss is NaN.
  TrainingResult run();

  /// Resumes an earlier run. With the same options, the results have the same bits.
  /// Throws what RunState::load throws.
  void resume(const Checkpoint& saved);

  /// Returns the number of steps in an epoch.
  std::int64_t steps() const { return loader_.size(); }
  /// Takes one step. run() calls it for each batch of the loader.
  void take_step(const Tensor& inputs, const Tensor& targets);
  /// Returns the metric of all test examples, which rank 0 computes; none if interrupted, or on a meta device.
  std::optional<double> test();
  data::ResidentLoader& loader() { return loader_; }

 private:
  bool has_begun() const { return result_.reached.epoch > 0 || result_.reached.batch > 0; }
  bool is_over();
  Tensor sum_of_scores();
  void train_epoch();
  void save();
  ProgressNumbers look() const;
  RunState run_state();

  Task task_;
  TrainingOptions o_;
  dist::Group world_ = dist::init();
  data::ResidentLoader loader_;
  TrainingStep step_;
  CapturedStep<std::reference_wrapper<TrainingStep>> captured_{std::ref(step_)};
  TrainingResult result_;
  std::int64_t examples_ = 0;    // number of examples trained on since construction
  bool is_interrupted_ = false;  // on any rank, so that all end after the same step
};

}  // namespace bytetape::examples
