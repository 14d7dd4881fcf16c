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

/// How long and on what a network is trained.
struct TrainingOptions {
  int epochs = 3;
  std::int64_t batch_size = 64;
  double lr = 1e-3;             // the highest one
  double until = 100;           // stops where the objective says that a test reaches this
  bool graph = false;           // steps are captured
  bool amp = false;             // steps compute in bf16 where Autocast does
  bool detect_anomaly = false;  // a step throws where a NaN is made
  std::uint64_t seed = 0;
  nn::MemoryOptions memory_options;  // what keeps the memory low
  std::string checkpoint;  // where the state goes once resumed, at the end of each epoch, and where interrupted
};

/// By what rule.
struct Recipe {
  std::unique_ptr<optim::Optimizer> optimizer;
  double (*lr)(double part) = nullptr;  // as a part of the highest one, when `part` of the steps are taken
  Augmentation augment = {};            // of the training images
};

/// From 1 down to 0.
inline double falling(double part) { return 1 - part; }
/// From 0 up to 1 in the first fifth, then down to 0.
inline double rising_then_falling(double part) { return part < 0.2 ? part / 0.2 : (1 - part) / 0.8; }

/// What came of it.
struct TrainingResult {
  data::Position reached;             // where training stands
  std::optional<double> test_figure;  // the objective's, of the epoch that ended; none where interrupted
  double train_seconds = 0;           // of the epochs, without the tests between them ...
  double first_to_last_seconds = 0;   // ... and with them
  double images_per_s = 0;

  bool is_finished() const { return test_figure.has_value(); }
};

/// A training step. It counts on the device what an epoch comes to, as a look at a step's loss would be a wait for the
/// device.
class TrainingStep {
 public:
  TrainingStep(nn::Module& model, optim::Optimizer& optimizer, const Objective& objective, const TrainingOptions& o)
      : model_(model),
        optimizer_(optimizer),
        objective_(objective),
        computed_(o.amp ? DType::bf16 : DType::f32),
        memory_options_(o.memory_options) {
    if (memory_options_.step_in_backward) step_in_backward_.emplace(optimizer);
  }

  void operator()(const Tensor& images, const Tensor& labels);
  void start_epoch();
  /// Of the epoch so far: sums over steps and images. Both wait for the device.
  double loss() const { return loss_.item<double>(); }
  double score() const { return score_.item<double>(); }
  /// The two, as a checkpoint has them.
  NamedTensors state_dict() const { return {{"loss", loss_}, {"score", score_}}; }

 private:
  nn::Module& model_;
  optim::Optimizer& optimizer_;
  const Objective& objective_;
  DType computed_;
  nn::MemoryOptions memory_options_;
  std::optional<optim::StepInBackward> step_in_backward_;
  Tensor loss_ = zeros({}), score_ = zeros({}, objective_.score_dtype);
};

/// What is trained on what.
struct Task {
  std::string name;  // whose checkpoints fit whose
  nn::Module& model;
  const Objective& objective;
  const Recipe& recipe;
  const data::ResidentImages &training, &testing;
};

/// A network that learns, and where it stands.
class Training {
 public:
  /// All that is referred to must outlive it. Throws ValueError where there are no images to test on, or fewer to train
  /// on than in a batch.
  Training(const Task& task, const TrainingOptions& o);

  /// Trains up to the last epoch, the test that reaches o.until, or a signal (interrupt.h), and tests after each epoch.
  /// Throws ValueError where an epoch's loss is NaN.
  TrainingResult run();

  /// Goes on where a run stood; with the same options, to the same bits. Throws what RunState::load throws.
  void resume(const Checkpoint& saved);

  /// Steps of an epoch.
  std::int64_t steps() const { return loader_.size(); }
  /// What run() takes for each batch of the loader.
  void take_step(const Tensor& images, const Tensor& labels);
  /// The score of all test images, for which the device is not waited for; undefined where interrupted.
  Tensor test();
  data::ResidentLoader& loader() { return loader_; }

 private:
  bool has_begun() const { return result_.reached.epoch > 0 || result_.reached.batch > 0; }
  bool is_over();
  void train_epoch();
  void save();
  ProgressNumbers look() const;
  RunState run_state();

  Task task_;
  TrainingOptions o_;
  data::ResidentLoader loader_;
  TrainingStep step_;
  CapturedStep<std::reference_wrapper<TrainingStep>> captured_{std::ref(step_)};
  TrainingResult result_;
  std::int64_t images_ = 0;  // that were trained on here
};

}  // namespace bytetape::examples
