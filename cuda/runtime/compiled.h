#pragma once
#include <cuda_runtime_api.h>

namespace bytetape::cuda {

/// Returns cudaSuccess if this build has kernels for the thread's device, and cudaErrorNoKernelImageForDevice if it was
/// compiled for other architectures only.
cudaError_t status_of_code();

}  // namespace bytetape::cuda
