#pragma once
#include <vector>

#include "bytetape/core/kernels/optimizer.h"
#include "bytetape/optim/optimizer.h"

namespace bytetape::optim {

/// The options of torch.optim.SGD. SGD has the formula.
struct SGDOptions {
  double lr = 1e-3;         ///< step size
  double momentum = 0;      ///< weight of the old momentum buffer
  double dampening = 0;     ///< the gradient's weight in the momentum buffer is 1 - dampening
  double weight_decay = 0;  ///< L2 penalty, added to the gradient
  bool nesterov = false;    ///< requires momentum > 0 and dampening 0
};

/// Stochastic gradient descent (torch.optim.SGD).
///
/// With g = gradient + weight_decay * p, a step is p -= lr * g without momentum. With momentum > 0, a buffer b =
/// momentum * b + (1 - dampening) * g is kept, and the step is p -= lr * b, or p -= lr * (g + momentum * b) with
/// Nesterov (Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013). In a
/// parameter's first step b = g. A buffer that is made in a later step, because momentum was 0 before, starts at 0.
///
///     optim::SGD sgd(model.parameters(), {.lr = 0.01, .momentum = 0.9});
class SGD final : public Optimizer {
 public:
  /// Throws ValueError, naming the argument, if lr, momentum or weight_decay is negative or not finite, dampening is
  /// not finite, or nesterov lacks its requirements.
  /// Throws what the constructor of Optimizer throws.
  explicit SGD(std::vector<Tensor> parameters, const SGDOptions& options = {});
  explicit SGD(std::vector<ParamGroup> groups, const SGDOptions& options = {});

 private:
  void check_options(const ParamGroup& group) const override;
  std::function<void()> replay_check() const override;
  void resize_states(std::size_t count) override { momentum_buffers_.resize(count); }
  std::vector<State> states(std::size_t i) override { return {{"momentum_buffer", &momentum_buffers_[i], true}}; }
  void prepare(const std::vector<Tensor>& gradients) override;
  void set_step_params() override;
  std::span<const std::byte> step_params() const override { return std::as_bytes(std::span(step_params_)); }
  void launch() override;

  std::vector<Tensor> momentum_buffers_;    // by parameter; undefined until its first step with momentum
  std::vector<SgdSlot> slots_;              // reused, so that later steps allocate no memory
  std::vector<SgdStepParams> step_params_;  // by slot
};

}  // namespace bytetape::optim
