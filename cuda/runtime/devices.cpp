// Lists the devices and their properties.
#include <cuda_runtime_api.h>

#include "bytetape/core/error.h"
#include "bytetape/cuda/cuda.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/runtime.h"

namespace bytetape::cuda {
namespace {

/// The answers of the driver, which is asked once.
struct Found {
  int count = 0;
  std::string obstacle;  // why there is no device
};

const Found& found() {
  static const Found once = [] {
    Found f;
    const cudaError_t status = cudaGetDeviceCount(&f.count);
    if (status == cudaErrorInsufficientDriver) {
      int driver = 0, runtime = 0;
      cudaDriverGetVersion(&driver);
      cudaRuntimeGetVersion(&runtime);
      const auto version = [](int v) { return bytetape::detail::concat(v / 1000, ".", v % 1000 / 10); };
      f.obstacle = driver == 0 ? "no NVIDIA driver is loaded"
                               : bytetape::detail::concat("the NVIDIA driver is too old: it knows CUDA ",
                                                          version(driver), ", and this build needs ", version(runtime));
    } else if (status == cudaErrorNoDevice) {
      f.obstacle = "there is no NVIDIA GPU that this process may use";
    } else if (status != cudaSuccess) {
      f.obstacle = bytetape::detail::concat("the NVIDIA driver fails: ", cudaGetErrorString(status));
    }
    if (status != cudaSuccess) f.count = 0;
    cudaGetLastError();  // clears the error, so that later calls do not report it
    return f;
  }();
  return once;
}

}  // namespace

void check_there(int index) {
  bytetape::check<DeviceError>(found().obstacle.empty(), "cuda cannot be used: ", found().obstacle);
  bytetape::check<DeviceError>(index >= 0 && index < found().count, "there is no cuda:", index, ", only ",
                               found().count, found().count == 1 ? " device" : " devices");
}

int device_count() { return found().count; }

DeviceProperties get_device_properties(int index) {
  check_there(index);
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, index));
  return {p.name, p.major, p.minor, p.totalGlobalMem, p.multiProcessorCount};
}

std::string get_device_name(int index) { return get_device_properties(index).name; }

}  // namespace bytetape::cuda
