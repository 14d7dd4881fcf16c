#include "bytetape/cuda/runtime/nvml.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace bytetape::cuda {
namespace {

// NVML comes with the driver, but not with every toolkit. These are its stable interface, as in its reference.
using NvmlDevice = void*;
struct NvmlProcess {  // nvmlProcessInfo_t
  unsigned pid;
  std::uint64_t bytes;  // usedGpuMemory
  unsigned gpu_instance, compute_instance;
};
constexpr int success = 0;
constexpr std::uint64_t not_available = ~std::uint64_t{0};

struct Nvml {
  int (*initialise)() = nullptr;
  int (*device)(const char* bus_id, NvmlDevice*) = nullptr;
  int (*processes)(NvmlDevice, unsigned* count, NvmlProcess*) = nullptr;
  bool ready = false;

  Nvml() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);  // never closed
    if (!library) return;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    ready = find(initialise, "nvmlInit_v2") && find(device, "nvmlDeviceGetHandleByPciBusId_v2") &&
            find(processes, "nvmlDeviceGetComputeRunningProcesses_v3") && initialise() == success;
  }
};

}  // namespace

std::optional<std::size_t> process_bytes(int index) {
  static const Nvml nvml;
  std::array<char, 32> bus_id{};
  NvmlDevice device = nullptr;
  if (!nvml.ready || cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), index) != cudaSuccess ||
      nvml.device(bus_id.data(), &device) != success)
    return std::nullopt;
  std::vector<NvmlProcess> running(256);
  auto count = static_cast<unsigned>(running.size());
  if (nvml.processes(device, &count, running.data()) != success) return std::nullopt;
  for (unsigned i = 0; i < count; ++i)
    if (running[i].pid == static_cast<unsigned>(getpid()) && running[i].bytes != not_available) return running[i].bytes;
  return std::nullopt;
}

}  // namespace bytetape::cuda
