#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "bytetape/cuda/conv/conv_sizes.h"

namespace bytetape::cuda {

/// One convolution as cuDNN is asked for it, on tensors of cudnn_alignment.
struct ConvProblem {
  ConvSizes sizes;
  ConvMap map;
  bool channels_last;  ///< x, weight and y, which else are row-major
  bool with_bias;
  Activation activation;        ///< of forward
  std::size_t workspace;        ///< bytes that cuDNN may use
  std::size_t usual_workspace;  ///< without a cap
};

/// Where the tensors, or their gradients, are.
struct ConvMemory {
  const void *x, *weight, *y, *bias;
};

class ConvGraph;

/// How cuDNN computes it, found once for each device and kept while it is among those used last; null where no
/// deterministic engine of cuDNN can. Engines compute in f32, without rounding f32 to fewer bits unless allow_tf32().
/// Throws Error, and keeps nothing, where the device is short of memory for an engine's code.
std::shared_ptr<ConvGraph> find_graph(const ConvProblem& problem, Device device);
/// Launches it; `workspace` has the problem's bytes.
void run(const std::shared_ptr<ConvGraph>& graph, const ConvMemory& memory, void* workspace, Device device);
/// How many are kept for a device: those of a large model, in training and in evaluation.
inline std::atomic<std::size_t> most_graphs{512};

}  // namespace bytetape::cuda
