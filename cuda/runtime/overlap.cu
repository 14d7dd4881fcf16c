#include "bytetape/cuda/runtime/overlap.cuh"

#include "bytetape/cuda/runtime/per_device.h"

namespace bytetape::cuda {
namespace {

__global__ void any_kernel() {}

}  // namespace

// The driver may have compiled code for an older GPU, in which nothing waits.
bool can_overlap(Device device) {
  return once_per_device(device.index, [&] {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, any_kernel));
    return capability(device) >= 90 && attributes.ptxVersion >= 90;
  });
}

}  // namespace bytetape::cuda
