#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// A differentiable function of tensors, as gradcheck calls it: again and again, so it must not depend on more.
using TensorFunction = std::function<Tensor(const std::vector<Tensor>&)>;

/// Tolerances of gradcheck(), as torch.autograd.gradcheck's.
struct GradcheckOptions {
  double eps = 1e-6;               ///< half the distance of the two points of a central difference
  double atol = 1e-5;              ///< |analytic - numeric| <= atol + rtol * |numeric|
  double rtol = 1e-3;              ///< see atol
  std::uint64_t weights_seed = 1;  ///< of the weights that outputs are multiplied with
};

/// What gradcheck() found; true where all is well.
struct GradcheckResult {
  bool ok = true;
  std::string
      message;  ///< the worst entry: input, index, analytic and numeric gradient; empty where nothing was checked
  explicit operator bool() const { return ok; }
};

/// Compares the gradients of fn that backward gives with central differences of its values. The output is multiplied
/// with fixed random weights and summed, so that wrong gradients cannot cancel. Every input that requires grad is
/// checked: a leaf, f64, elements that share no memory. Values of the inputs are changed on the way and put back.
/// Throws AutogradError where nothing requires grad or an input that does is no leaf, DTypeError where it is not f64,
/// ValueError where its elements share memory or fn gives other values for the same inputs.
GradcheckResult gradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options = {});

/// gradcheck of the gradients of fn themselves, in its inputs and in the gradient of its output (create_graph).
GradcheckResult gradgradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options = {});

}  // namespace bytetape
