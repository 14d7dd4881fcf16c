#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "bytetape/cuda/conv/conv_sizes.h"

namespace bytetape::cuda {

/// A convolution for cuDNN. Tensors are aligned to cudnn_alignment.
struct ConvProblem {
  ConvSizes sizes;
  ConvMap map;
  bool channels_last;  ///< whether x, weight and y are channels-last; if not, row-major
  bool with_bias;
  Activation activation;        ///< activation of forward
  std::size_t workspace;        ///< bytes that cuDNN may use
  std::size_t usual_workspace;  ///< bytes without a cap
};

/// The addresses of the tensors or their gradients.
struct ConvMemory {
  const void *x, *weight, *y, *bias;
};

class ConvGraph;

/// Returns cuDNN's graph for a convolution, or null if cuDNN has no deterministic engine for it. Recently used graphs
/// are cached for each device. Engines compute in f32, and round to TF32 only if allow_tf32().
/// Throws Error, and caches nothing, if the device lacks memory for an engine's code.
std::shared_ptr<ConvGraph> find_graph(const ConvProblem& problem, Device device);
/// Launches a graph. `workspace` has at least the problem's bytes.
void run(const std::shared_ptr<ConvGraph>& graph, const ConvMemory& memory, void* workspace, Device device);
/// The number of graphs cached for a device: enough for a large model in training and evaluation.
inline std::atomic<std::size_t> most_graphs{512};

}  // namespace bytetape::cuda
