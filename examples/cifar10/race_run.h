#pragma once
#include <functional>
#include <vector>

#include "examples/cifar10/race_data.h"
#include "examples/cifar10/race_net.h"

namespace bytetape::examples {

/// The recipe of the race, after airbench94_muon (Jordan, github.com/KellerJordan/cifar10-airbench, 2024). Smaller
/// images in the first epochs are an addition. Fewer epochs than early_epochs never see whole images.
struct RaceOptions {
  int epochs = 9;
  int early_epochs = 4;          // in which the whitening bias is trained, on images of early_size
  std::int64_t early_size = 28;  // pixels
  std::int64_t batch_size = 2000;
  double filter_lr = 0.24, bias_lr = 0.053, head_lr = 0.67;
  double weight_decay = 2e-6;  // per image of a batch, for biases and head
  double label_smoothing = 0.2;
  double filter_momentum = 0.7;
};

/// The state after an epoch.
struct RaceEpoch {
  double seconds;   // of training, since the start
  double accuracy;  // of test images, each seen once
  double loss;      // mean per image of the epoch's last batch
};

struct RaceResult {
  std::vector<RaceEpoch> epochs;
  double accuracy = 0;  // of test images, each seen ten times
  double seconds = 0;   // whitening, training and the last test
};

/// Trains a network again and again. Its memory and its captured steps are made once, as a compiled program is.
class Race {
 public:
  /// `data` must outlive the race. Throws ValueError if there are fewer training images than a batch has.
  Race(RaceData& data, const RaceOptions& options, DType computed);

  /// Trains from new weights. Calls after_epoch(epoch, state) while the clock is stopped.
  /// Throws ValueError if the loss is NaN.
  RaceResult run(std::uint64_t seed, const std::function<void(int, const RaceEpoch&)>& after_epoch);
  /// The number of steps in an epoch.
  std::int64_t steps() const { return data_.training_size() / options_.batch_size; }

 private:
  using Step = std::function<Tensor(const Tensor&)>;
  Tensor train_on(const Tensor& indices);
  void count_correct(const Tensor& indices, bool averages);
  double test(CapturedStep<std::function<void(const Tensor&)>>& count);
  void set_rates(std::int64_t step);
  void reset(std::uint64_t seed);
  Tensor train_epoch(int epoch);

  RaceData& data_;
  RaceOptions options_;
  DType computed_;
  RaceNet net_;
  optim::SGD sgd_;
  optim::Muon muon_;
  StateDict sgd_start_ = sgd_.state_dict(), muon_start_ = muon_.state_dict();
  Tensor correct_ = zeros({}, DType::i64);
  bool is_early_ = true;  // in early epochs
  CapturedStep<Step> train_early_, train_late_;
  CapturedStep<std::function<void(const Tensor&)>> count_once_, count_averaged_;
};

}  // namespace bytetape::examples
