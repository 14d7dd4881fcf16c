#pragma once
#include <vector>

#include "bytetape/core/kernels/optimizer.h"
#include "bytetape/optim/optimizer.h"

namespace bytetape::optim {

/// As torch.optim.SGD's; the formula is at SGD.
struct SGDOptions {
  double lr = 1e-3;         ///< step size
  double momentum = 0;      ///< how much of the momentum buffer stays
  double dampening = 0;     ///< of the gradient, on its way into the momentum buffer
  double weight_decay = 0;  ///< L2 penalty
  bool nesterov = false;    ///< needs momentum > 0 and dampening 0
};

/// Stochastic gradient descent (torch.optim.SGD). With g = gradient + weight_decay * p and, where momentum > 0, a
/// buffer b = momentum * b + (1 - dampening) * g (on a parameter's first step b = g; one that is made on a later step,
/// as momentum was 0 before, begins with 0): p -= lr * b, or lr * (g +
/// momentum * b) with Nesterov (Sutskever et al., "On the importance of initialization and momentum in deep learning",
/// 2013).
///
///     optim::SGD sgd(model.parameters(), {.lr = 0.01, .momentum = 0.9});
class SGD final : public Optimizer {
 public:
  /// Throws ValueError, naming the argument, where lr, momentum or weight_decay is negative or nesterov lacks what it
  /// needs; and what Optimizer() throws.
  explicit SGD(std::vector<Tensor> parameters, const SGDOptions& options = {});
  explicit SGD(std::vector<ParamGroup> groups, const SGDOptions& options = {});

 private:
  void check_options(const ParamGroup& group) const override;
  std::function<void()> replay_check() const override;
  std::vector<State> states(std::size_t i) override { return {{"momentum_buffer", &momentum_buffers_[i], true}}; }
  void prepare(const std::vector<Tensor>& gradients) override;
  void set_step_params() override;
  std::span<const std::byte> step_params() const override { return std::as_bytes(std::span(step_params_)); }
  void launch() override;

  std::vector<Tensor> momentum_buffers_;    // by parameter; undefined before its first step with momentum
  std::vector<SgdSlot> slots_;              // kept, so that a later step takes no new memory
  std::vector<SgdStepParams> step_params_;  // by slot
};

}  // namespace bytetape::optim
