#include "bytetape/cuda/runtime.h"
#include "bytetape/cuda/cuda.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/upstream.h"
#include "bytetape/cuda/fault.h"
#include "bytetape/cuda/launch.h"

namespace bytetape::cuda {
namespace {

constexpr int oldest_major = 8;  // Ampere: what the kernels are compiled for

/// What is asked of the driver once.
struct Found {
  int count = 0;
  std::string obstacle;  // why there is none
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
    cudaGetLastError();  // forget it: later calls are asked about themselves
    return f;
  }();
  return once;
}

/// A device that was checked, and its stream.
struct Opened {
  cudaStream_t stream = nullptr;
  int processors = 0;
  DeviceFault* fault = nullptr;

  explicit Opened(int index) {
    bytetape::check<DeviceError>(found().obstacle.empty(), "no CUDA device: ", found().obstacle);
    bytetape::check<DeviceError>(index < found().count, "there is no cuda:", index, ", only ", found().count,
                                 found().count == 1 ? " device" : " devices");
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index));
    bytetape::check<DeviceError>(properties.major >= oldest_major, "cuda:", index, " is a ", properties.name,
                                 " of compute capability ", properties.major, ".", properties.minor,
                                 ", and bytetape needs 8.0 or newer");
    processors = properties.multiProcessorCount;
    check(cudaSetDevice(index));
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    check(cudaHostAlloc(reinterpret_cast<void**>(&fault), sizeof *fault, cudaHostAllocMapped | cudaHostAllocPortable));
    *fault = {};
  }
};

// Never closed: tensors in static storage may outlive it.
const Opened& opened(int index) {
  static auto* all = new std::array<std::unique_ptr<Opened>, 256>;
  static std::array<std::once_flag, 256> made;
  const auto i = static_cast<std::size_t>(index);
  std::call_once(made[i], [&] { (*all)[i] = std::make_unique<Opened>(index); });
  return *(*all)[i];
}

thread_local int current = -1;

const Opened& enter(int index) {
  const Opened& device = opened(index);
  if (current != index) {
    check(cudaSetDevice(index));
    current = index;
  }
  return device;
}

/// Throws what a kernel has left, in the name of its op; the host has waited for the device.
void throw_fault_of(const Opened& device) {
  DeviceFault& record = *device.fault;
  if (!std::atomic_ref(record.is_taken).load(std::memory_order_acquire)) return;
  const DeviceFault left = record;
  record = {};
  const memory::ScopeGuard scope({left.module, left.op, memory::current_scope.phase});
  throw_fault(left.fault);
}

/// Device memory. Segments are few and large, and freeing one waits for the device: what ran on it has ended.
class DeviceUpstream final : public memory::Upstream {
 public:
  explicit DeviceUpstream(int index) : index_(index) {
    enter(index);
    std::size_t free = 0;
    check(cudaMemGetInfo(&free, &capacity_));
  }
  void* allocate(std::size_t bytes) noexcept override {
    enter(index_);
    void* data = nullptr;
    if (cudaMalloc(&data, bytes) == cudaSuccess) return data;
    cudaGetLastError();  // running out is no fault of what comes next
    return nullptr;
  }
  void deallocate(void* data, std::size_t) noexcept override {
    enter(index_);
    cudaFree(data);
  }
  std::size_t capacity() const override { return capacity_; }

 private:
  int index_;
  std::size_t capacity_ = 0;
};

}  // namespace

void check(cudaError_t status) {
  if (status != cudaSuccess) [[unlikely]]
    fail<Error>("CUDA: ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
}

cudaStream_t stream_of(Device device) { return enter(device.index).stream; }

int processors(Device device) { return opened(device.index).processors; }

unsigned blocks_for(std::int64_t n, Device device) {
  const std::int64_t most = std::int64_t{processors(device)} * 16;
  return static_cast<unsigned>(std::clamp<std::int64_t>((n + block_size - 1) / block_size, 1, most));
}

std::unique_ptr<memory::Upstream> device_memory(int index) { return std::make_unique<DeviceUpstream>(index); }

void transfer(Place<const void*> from, Place<void*> to, std::size_t bytes) {
  const bool to_host = to.device == Device::cpu();
  const Device device = to_host ? from.device : to.device;
  if (!to_host && from.device != Device::cpu()) check(cudaStreamSynchronize(stream_of(from.device)));
  const cudaStream_t stream = stream_of(device);
  check(cudaMemcpyAsync(to.data, from.data, bytes, cudaMemcpyDefault, stream));
  if (to_host) synchronize(device.index);
}

void synchronize(int index) {
  const Opened& device = enter(index);
  check(cudaStreamSynchronize(device.stream));
  throw_fault_of(device);
}

DeviceFault* fault_of(Device device) { return opened(device.index).fault; }

int device_count() { return found().count; }

}  // namespace bytetape::cuda
