#pragma once
#include <cuda_runtime_api.h>

namespace bytetape::cuda {

/// Replaces a graph's memset nodes by equivalent kernels, which take less time.
void fill_by_kernels(cudaGraph_t graph);

}  // namespace bytetape::cuda
