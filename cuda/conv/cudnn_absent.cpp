// In place of cudnn_graph.cpp where cuDNN, or cudnn-frontend's headers, were not found: our own kernels do all.
#include "bytetape/cuda/conv/cudnn_graph.h"

namespace bytetape::cuda {

std::shared_ptr<ConvGraph> find_graph(const ConvProblem&, Device) { return nullptr; }
void run(const std::shared_ptr<ConvGraph>&, const ConvMemory&, void*, Device) {}

}  // namespace bytetape::cuda
