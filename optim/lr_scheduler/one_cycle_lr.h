#pragma once
#include <optional>

#include "bytetape/optim/lr_scheduler/base.h"

namespace bytetape::optim::lr_scheduler {

/// How OneCycleLR goes from one value to another.
enum class AnnealStrategy { cos, linear };

/// As torch.optim.lr_scheduler.OneCycleLR's.
struct OneCycleLROptions {
  PerGroup max_lr = 0;                        ///< the highest rate; to be given
  std::optional<std::int64_t> total_steps{};  ///< of the cycle; or the next two, which are multiplied
  std::optional<std::int64_t> epochs{}, steps_per_epoch{};
  double pct_start = 0.3;  ///< which part of the cycle goes up
  AnnealStrategy anneal_strategy = AnnealStrategy::cos;
  bool cycle_momentum = true;                          ///< momentum, or Adam's betas[0], goes against the rate
  PerGroup base_momentum = 0.85, max_momentum = 0.95;  ///< where the rate is highest, and at both ends
  double div_factor = 25;                              ///< the first rate is max_lr / div_factor
  double final_div_factor = 1e4;                       ///< the last rate is the first / final_div_factor
  bool three_phase = false;                            ///< up, down to the first rate, then down to the last
};

/// Up to max_lr and down to next to nothing, in one cycle of total_steps steps; stepped after each of the optimizer's
/// (Smith & Topin, "Super-convergence: very fast training of neural networks using large learning rates", 2018, as
/// torch.optim.lr_scheduler.OneCycleLR).
class OneCycleLR final : public LRScheduler {
 public:
  /// Throws ValueError, naming the option, where it is out of its range, there is no number of steps, or the optimizer
  /// has neither momentum nor betas to cycle.
  OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options);

 private:
  /// The options of one group.
  struct Range {
    double max_lr, base_momentum, max_momentum;
  };
  /// A part of the cycle: where it ends, and what it goes from and to.
  struct Phase {
    double end_step, start_lr, end_lr, start_momentum, end_momentum;
  };
  void advance() override;
  void update(ParamGroup& group, std::size_t g) override;
  std::vector<Phase> phases(std::size_t g) const;
  double annealed(double start, double end, double pct) const;

  OneCycleLROptions options_;
  std::int64_t total_steps_;
  std::vector<Range> ranges_;  // by group
};

}  // namespace bytetape::optim::lr_scheduler
