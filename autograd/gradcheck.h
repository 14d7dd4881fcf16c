#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// A differentiable function of tensors, as gradcheck calls it: again and again, so it must not depend on more.
using TensorFunction = std::function<Tensor(const std::vector<Tensor>&)>;

struct GradcheckOptions {
  double eps = 1e-6;               // half the distance of the two points of a central difference
  double atol = 1e-5;              // |analytic - numeric| <= atol + rtol * |numeric|
  double rtol = 1e-3;              //
  std::uint64_t weights_seed = 1;  // of the weights that outputs are multiplied with
};

struct GradcheckResult {
  bool ok = true;
  std::string message;  // the worst entry: input, index, analytic and numeric gradient; empty where nothing was checked
  explicit operator bool() const { return ok; }
};

/// Compares the gradients of fn that backward gives with central differences of its values. The output is multiplied
/// with fixed random weights and summed, so that wrong gradients cannot cancel. Every input that requires grad is
/// checked: a leaf, f64, elements that share no memory. Values of the inputs are changed on the way and put back.
/// Throws DTypeError, ValueError on unfit inputs, AutogradError where nothing requires grad.
GradcheckResult gradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options = {});

/// gradcheck of the gradients of fn themselves, in its inputs and in the gradient of its output (create_graph).
GradcheckResult gradgradcheck(const TensorFunction& fn, const std::vector<Tensor>& inputs,
                              const GradcheckOptions& options = {});

}  // namespace bytetape
