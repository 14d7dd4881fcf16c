#pragma once
#include <vector>

#include "bytetape/optim/optimizer.h"

namespace bytetape::optim {

/// While it lives, backward() steps the optimizer, parameter by parameter: as soon as a gradient is whole it is used
/// and let go, so that no two need be held at once. Neither step() nor zero_grad() is called then:
///
///     optim::Adam adam(net.parameters());
///     const optim::StepInBackward steps(adam);
///     for (auto [x, t] : loader) cross_entropy(net(x), t).backward();
///
/// The parameters become those of backward() and step(), bit for bit. What needs all gradients at once (clipping by
/// their norm, a gradient scaler, accumulation over batches) cannot be had. The optimizer must outlive it.
class StepInBackward {
 public:
  /// Drops the gradients there are.
  [[nodiscard]] explicit StepInBackward(Optimizer& optimizer);
  ~StepInBackward();
  StepInBackward(const StepInBackward&) = delete;
  StepInBackward& operator=(const StepInBackward&) = delete;

 private:
  std::vector<Tensor> parameters_;
  std::vector<int> handles_;
};

}  // namespace bytetape::optim
