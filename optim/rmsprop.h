#pragma once
#include <vector>

#include "bytetape/core/kernels/optimizer.h"
#include "bytetape/optim/optimizer.h"

namespace bytetape::optim {

/// The options of torch.optim.RMSprop. RMSprop has the formula.
struct RMSpropOptions {
  double lr = 1e-2;         ///< step size
  double alpha = 0.99;      ///< decay factor of the running averages
  double eps = 1e-8;        ///< added to the denominator
  double weight_decay = 0;  ///< L2 penalty, added to the gradient
  double momentum = 0;      ///< weight of the old momentum buffer
  bool centered = false;    ///< divide by the gradient's standard deviation, not by its root mean square
};

/// RMSprop (torch.optim.RMSprop; Hinton, "Neural networks for machine learning", lecture 6e, 2012).
///
/// With g = gradient + weight_decay * p, the running average of the squared gradient is v = alpha * v + (1 - alpha) * g
/// * g. A step is p -= lr * d with d = g / (sqrt(v) + eps). If `centered`, the denominator is sqrt(v - m * m) + eps,
/// where m is the running average of g (Graves, "Generating sequences with recurrent neural networks", 2013). With
/// momentum > 0, a buffer b = momentum * b + d is kept, and the step is p -= lr * b. All state starts at 0.
///
///     optim::RMSprop rmsprop(model.parameters(), {.lr = 1e-3, .momentum = 0.9});
class RMSprop final : public Optimizer {
 public:
  /// Throws ValueError, naming the argument, if lr, alpha, eps, weight_decay or momentum is negative or not finite.
  /// Throws what the constructor of Optimizer throws.
  explicit RMSprop(std::vector<Tensor> parameters, const RMSpropOptions& options = {});
  explicit RMSprop(std::vector<ParamGroup> groups, const RMSpropOptions& options = {});

 private:
  void check_options(const ParamGroup& group) const override;
  std::function<void()> replay_check() const override;
  void resize_states(std::size_t count) override { kept_.resize(count); }
  std::vector<State> states(std::size_t i) override {
    return {{"square_avg", &kept_[i].square_avg},
            {"momentum_buffer", &kept_[i].momentum_buffer, true},
            {"grad_avg", &kept_[i].grad_avg, true}};
  }
  void prepare(const std::vector<Tensor>& gradients) override;
  void set_step_params() override;
  std::span<const std::byte> step_params() const override { return std::as_bytes(std::span(step_params_)); }
  void launch() override;

  /// The state of a parameter. Undefined until its first step, momentum_buffer until its first step with momentum, and
  /// grad_avg until its first centered step.
  struct Kept {
    Tensor square_avg, momentum_buffer, grad_avg;
  };
  std::vector<Kept> kept_;                      // by parameter
  std::vector<RmspropSlot> slots_;              // reused, so that later steps allocate no memory
  std::vector<RmspropStepParams> step_params_;  // by slot
};

}  // namespace bytetape::optim
