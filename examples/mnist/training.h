#pragma once
#include <bytetape/bytetape.h>

namespace bytetape::examples {

/// How a network is trained.
struct TrainingOptions {
  int epochs = 3;
  std::int64_t batch_size = 64;
  double lr = 2e-3;    // the first one
  double until = 100;  // stops at this test accuracy, in %
  bool graph = false;  // steps are captured
  bool amp = false;    // steps compute in bf16 where Autocast does
  std::uint64_t seed = 0;
};

/// What came of it.
struct TrainingResult {
  int epochs = 0;
  double test_accuracy = 0;
  double train_seconds = 0;          // of the epochs, without the tests between them ...
  double first_to_last_seconds = 0;  // ... and with them
  double images_per_s = 0;
};

/// A training step with Adam. It counts on the device what an epoch comes to, as a look at a step's loss would be a
/// wait for the device.
class TrainingStep {
 public:
  TrainingStep(nn::Module& model, const TrainingOptions& o)
      : model_(model), adam_(model.parameters(), {.lr = o.lr}), computed_(o.amp ? DType::bf16 : DType::f32) {}

  void operator()(const Tensor& images, const Tensor& labels);
  void set_lr(double lr) { adam_.set_lr(lr); }
  void start_epoch();
  /// Of the epoch so far: sums over steps and images. Both wait for the device.
  double loss() const { return loss_.item<double>(); }
  std::int64_t correct() const { return correct_.item<std::int64_t>(); }

 private:
  nn::Module& model_;
  optim::Adam adam_;
  DType computed_;
  Tensor loss_ = zeros({}), correct_ = zeros({}, DType::i64);
};

/// Trains with a learning rate that falls linearly to 0 over the whole run, and tests after each epoch. Throws
/// ValueError where there are fewer images than in a batch.
TrainingResult train(nn::Module& model, const data::ResidentImages& training, const data::ResidentImages& testing,
                     const TrainingOptions& o);

}  // namespace bytetape::examples
