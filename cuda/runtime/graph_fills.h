#pragma once
#include <cuda_runtime_api.h>

namespace bytetape::cuda {

/// Puts kernels in the place of a graph's memsets, which do the same and take less.
void fill_by_kernels(cudaGraph_t graph);

}  // namespace bytetape::cuda
