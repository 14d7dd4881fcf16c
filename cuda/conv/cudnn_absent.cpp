// Replaces cudnn_graph.cpp if cuDNN or the headers of cudnn-frontend were not found. Our own kernels then run all
// convolutions.
#include "bytetape/cuda/conv/cudnn_graph.h"

namespace bytetape::cuda {

std::shared_ptr<ConvGraph> find_graph(const ConvProblem&, Device) { return nullptr; }
void run(const std::shared_ptr<ConvGraph>&, const ConvMemory&, void*, Device) {}

}  // namespace bytetape::cuda
