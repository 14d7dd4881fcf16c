#pragma once
#include <optional>

#include "bytetape/optim/lr_scheduler/base.h"

namespace bytetape::optim::lr_scheduler {

/// The interpolation that OneCycleLR uses within a phase.
enum class AnnealStrategy { cos, linear };

/// The options of torch.optim.lr_scheduler.OneCycleLR.
struct OneCycleLROptions {
  PerGroup max_lr = 0;                        ///< the highest rate; required
  std::optional<std::int64_t> total_steps{};  ///< steps of the cycle; default: epochs * steps_per_epoch
  std::optional<std::int64_t> epochs{}, steps_per_epoch{};
  double pct_start = 0.3;  ///< fraction of the cycle in which the rate rises
  AnnealStrategy anneal_strategy = AnnealStrategy::cos;
  bool cycle_momentum = true;                          ///< momentum, or Adam's betas[0], falls while the rate rises
  PerGroup base_momentum = 0.85, max_momentum = 0.95;  ///< momentum at the highest rate, and at both ends
  double div_factor = 25;                              ///< the first rate is max_lr / div_factor
  double final_div_factor = 1e4;                       ///< the last rate is the first / final_div_factor
  bool three_phase = false;                            ///< phases: up, down to the first rate, down to the last rate
};

/// One cycle: the rate rises to max_lr and falls almost to 0 (torch.optim.lr_scheduler.OneCycleLR; Smith & Topin,
/// "Super-convergence: very fast training of neural networks using large learning rates", 2018).
///
/// The cycle has total_steps steps. Call step() after each step of the optimizer.
class OneCycleLR final : public LRScheduler {
 public:
  /// Throws ValueError, naming the option, if an option is out of its range.
  /// Throws ValueError if the number of steps is not given, or the optimizer has neither momentum nor betas to cycle.
  OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options);

 private:
  /// A phase of the cycle: its last step, and the values at its start and end.
  struct Phase {
    double end_step, start_lr, end_lr, start_momentum, end_momentum;
  };
  double initial_lr_of(const ParamGroup& group, std::size_t g) const override;
  void advance() override;
  void update(ParamGroup& group, std::size_t g) override;
  void check_group(std::size_t g) const;
  std::vector<Phase> phases(std::size_t g) const;
  double annealed(double start, double end, double pct) const;

  OneCycleLROptions options_;
  std::int64_t total_steps_;
};

}  // namespace bytetape::optim::lr_scheduler
