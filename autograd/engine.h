#pragma once
#include <functional>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// The arguments of torch.autograd.grad.
struct GradOptions {
  std::vector<Tensor> seeds;  ///< gradients of the outputs; if empty, 1 for each one-element output
  bool retain_graph = false;  ///< keep the graph for another backward
  bool create_graph = false;  ///< record backward for higher derivatives; implies retain_graph
  bool allow_unused = false;  ///< give unused inputs an undefined gradient instead of throwing
};

/// Returns d(outputs)/d(inputs), summed over the outputs, without changing any .grad.
/// Inputs may be leaves or not.
/// Throws AutogradError if an output or input requires no grad, an input is unused and `allow_unused` is false, a seed
/// is missing, the graph is already freed, an input was moved or converted since the outputs were computed, or
/// `create_graph` meets a rule that is not differentiable.
/// Throws ValueError if the number of seeds is not the number of outputs.
/// Throws ShapeError, DTypeError or DeviceError if a seed is not like its output.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {});

/// Calls `f` once at the end of the backward() that runs on this thread, with whether it succeeded. The functions are
/// called in the order in which they were given. If one throws, later ones get false. A function must not throw if it
/// gets false. For a hook that must know when all gradients are complete.
/// Throws AutogradError if no backward() runs on this thread.
void at_end_of_backward(std::function<void(bool has_succeeded)> f);

}  // namespace bytetape
