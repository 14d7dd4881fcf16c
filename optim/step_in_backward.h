#pragma once
#include <vector>

#include "bytetape/optim/optimizer.h"

namespace bytetape::optim {

/// Scope in which backward() steps the optimizer, one parameter at a time.
///
/// As soon as a gradient is complete, it is used and released, so that no two gradients are held at once. The program
/// calls neither step() nor zero_grad():
///
///     optim::Adam adam(net.parameters());
///     const optim::StepInBackward steps(adam);
///     for (auto [x, t] : loader) cross_entropy(net(x), t).backward();
///
/// The parameters are bit-identical to those of backward() and step(). Clipping by norm, gradient scalers and gradient
/// accumulation are not possible, because they need all gradients at once. The optimizer must outlive the scope.
/// backward() throws ValueError if a group was added to the optimizer meanwhile.
class StepInBackward {
 public:
  /// Sets existing gradients to undefined.
  /// Throws ValueError if the parameters are those of a dist::Sharded.
  [[nodiscard]] explicit StepInBackward(Optimizer& optimizer);
  ~StepInBackward();
  StepInBackward(const StepInBackward&) = delete;
  StepInBackward& operator=(const StepInBackward&) = delete;

 private:
  std::vector<Tensor> parameters_;
  std::vector<int> handles_;
};

}  // namespace bytetape::optim
