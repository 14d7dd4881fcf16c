#pragma once
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape {

/// As the arguments of torch.autograd.grad.
struct GradOptions {
  std::vector<Tensor> seeds;  ///< gradients of the outputs; 1 for one-element outputs where left out
  bool retain_graph = false;  ///< keep the graph for another backward
  bool create_graph = false;  ///< record the backward itself, for higher derivatives; implies retain_graph
  bool allow_unused = false;  ///< an input that the outputs do not depend on gets an undefined gradient
};

/// d(outputs)/d(inputs), summed over the outputs, without touching any .grad. Leaves and non-leaves alike may be
/// inputs. Throws AutogradError where an output or an input requires no grad, an input is unused (unless allowed), a
/// seed is missing, the graph was already freed, or create_graph meets a rule that cannot be differentiated again;
/// ValueError where there are not as many seeds as outputs, ShapeError, DTypeError or DeviceError where one is not like
/// its output.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options = {});

}  // namespace bytetape
