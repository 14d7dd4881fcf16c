#pragma once
#include <cuda_runtime_api.h>

namespace bytetape::cuda {

/// Notes that a node of a recorded graph is about to replace another one. Its work is attributed like the other's.
void note_replaced_node(cudaGraphNode_t old, cudaGraphNode_t by);

}  // namespace bytetape::cuda
