#pragma once
#include <cuda_runtime_api.h>

namespace bytetape::cuda {

/// cudaSuccess where the thread's device can run our kernels: cudaErrorNoKernelImageForDevice where they were compiled
/// for other architectures.
cudaError_t status_of_code();

}  // namespace bytetape::cuda
