#pragma once
#include <bytetape/bytetape.h>

#include <functional>
#include <memory>

namespace bytetape::examples {

/// How long and on what a network is trained.
struct TrainingOptions {
  int epochs = 3;
  std::int64_t batch_size = 64;
  double lr = 1e-3;    // the highest one
  double until = 100;  // stops at this test accuracy, in %
  bool graph = false;  // steps are captured
  bool amp = false;    // steps compute in bf16 where Autocast does
  std::uint64_t seed = 0;
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
  int epochs = 0;
  double test_accuracy = 0;
  double train_seconds = 0;          // of the epochs, without the tests between them ...
  double first_to_last_seconds = 0;  // ... and with them
  double images_per_s = 0;
};

/// A training step. It counts on the device what an epoch comes to, as a look at a step's loss would be a wait for the
/// device.
class TrainingStep {
 public:
  TrainingStep(nn::Module& model, optim::Optimizer& optimizer, bool amp)
      : model_(model), optimizer_(optimizer), computed_(amp ? DType::bf16 : DType::f32) {}

  void operator()(const Tensor& images, const Tensor& labels);
  void start_epoch();
  /// Of the epoch so far: sums over steps and images. Both wait for the device.
  double loss() const { return loss_.item<double>(); }
  std::int64_t correct() const { return correct_.item<std::int64_t>(); }

 private:
  nn::Module& model_;
  optim::Optimizer& optimizer_;
  DType computed_;
  Tensor loss_ = zeros({}), correct_ = zeros({}, DType::i64);
};

/// Trains for some epochs, and tests after each. Throws ValueError where there are fewer images than in a batch.
TrainingResult train(nn::Module& model, const Recipe& recipe, const data::ResidentImages& training,
                     const data::ResidentImages& testing, const TrainingOptions& o);

}  // namespace bytetape::examples
