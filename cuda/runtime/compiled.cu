#include "bytetape/cuda/runtime/compiled.h"

namespace bytetape::cuda {
namespace {
__global__ void one_of_ours() {}
}  // namespace

cudaError_t status_of_code() {
  cudaFuncAttributes unused{};
  return cudaFuncGetAttributes(&unused, one_of_ours);
}

}  // namespace bytetape::cuda
