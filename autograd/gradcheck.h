#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// A differentiable function of tensors. Its result must depend only on its inputs, because gradcheck() calls it many
/// times.
using TensorFunction = std::function<Tensor(const std::vector<Tensor>&)>;

/// Tolerances of gradcheck(), as in torch.autograd.gradcheck.
struct GradcheckOptions {
  double eps = 1e-6;               ///< half the distance between the two points of a central difference
  double atol = 1e-5;              ///< |analytic - numeric| <= atol + rtol * |numeric|
  double rtol = 1e-3;              ///< see atol
  std::uint64_t weights_seed = 1;  ///< seed of the random weights that multiply the outputs
};

/// The result of gradcheck(). Converts to true if all gradients match.
struct GradcheckResult {
  bool ok = true;
  std::string message;  ///< the worst entry: input, index, analytic and numeric gradient; empty if nothing was checked
  explicit operator bool() const { return ok; }
};

/// Compares the gradients of fn with central differences.
/// The output is multiplied by fixed random weights and summed, so that wrong gradients cannot cancel each other. Each
/// input that requires grad is checked, and must be an f64 leaf whose elements share no memory. The check changes the
/// elements of these inputs one by one, and restores them.
/// Throws AutogradError if no input requires grad, or if a checked input is not a leaf.
/// Throws DTypeError if a checked input is not f64.
/// Throws ValueError if elements of a checked input share memory, or if fn returns different values for the same
/// inputs.
GradcheckResult gradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options = {});

/// Checks the second derivatives of fn with gradcheck(). The checked function returns the gradients of fn. Its inputs
/// are the inputs of fn and the gradient of fn's output.
GradcheckResult gradgradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options = {});

}  // namespace bytetape
