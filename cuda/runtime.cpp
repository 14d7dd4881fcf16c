#include "bytetape/cuda/runtime.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/upstream.h"
#include "bytetape/cuda/cuda.h"
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

thread_local int current = -1;  // the device that CUDA takes this thread's calls for

/// A device that was checked, and its stream.
struct Opened {
  cudaStream_t stream = nullptr;
  int processors = 0, capability = 0;
  DeviceFault* fault = nullptr;

  explicit Opened(int index) {
    bytetape::check<DeviceError>(found().obstacle.empty(), "cuda cannot be used: ", found().obstacle);
    bytetape::check<DeviceError>(index < found().count, "there is no cuda:", index, ", only ", found().count,
                                 found().count == 1 ? " device" : " devices");
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index));
    bytetape::check<DeviceError>(properties.major >= oldest_major, "cuda:", index, " is a ", properties.name,
                                 " of compute capability ", properties.major, ".", properties.minor,
                                 ", and bytetape needs 8.0 or newer");
    processors = properties.multiProcessorCount;
    capability = 10 * properties.major + properties.minor;
    check(cudaSetDevice(index));
    current = index;
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
  static std::mutex mutex;
  DeviceFault& record = *device.fault;
  std::atomic_ref state(record.state);
  if (state.load(std::memory_order_acquire) != DeviceFault::written) return;
  std::unique_lock lock(mutex);
  if (state.load(std::memory_order_acquire) != DeviceFault::written) return;  // another thread has thrown it
  const DeviceFault left = record;
  state.store(DeviceFault::free, std::memory_order_release);
  lock.unlock();
  const memory::ScopeGuard scope({left.module, left.op, memory::current_scope.phase});
  throw_fault(left.fault);
}

/// While it lives, this thread may ask the driver for memory though its work is being recorded: what is asked is no
/// part of that.
class OutsideRecording {
 public:
  OutsideRecording() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~OutsideRecording() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  OutsideRecording(const OutsideRecording&) = delete;
  OutsideRecording& operator=(const OutsideRecording&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Device memory. Segments are few and large, and freeing one waits for the device: what ran on it has ended.
class DeviceUpstream final : public memory::Upstream {
 public:
  explicit DeviceUpstream(int index) : index_(index) {
    enter(index);
    std::size_t free = 0;
    check(cudaMemGetInfo(&free, &capacity_));
  }
  void* allocate(std::size_t bytes) noexcept override {
    const OutsideRecording outside;
    void* data = nullptr;
    if (!is_current() || cudaMalloc(&data, bytes) != cudaSuccess) {
      // Running out is no fault of what comes next; what an earlier kernel did to the device lasts, and shows there
      // again.
      cudaGetLastError();
      return nullptr;
    }
    held_ += bytes;
    return data;
  }
  // At the end of the process the driver may be gone, and all of the memory with it.
  void deallocate(void* data, std::size_t bytes) noexcept override {
    const OutsideRecording outside;
    if (is_current()) cudaFree(data);
    held_ -= bytes;
  }
  std::size_t capacity() const override { return capacity_; }
  /// What the device says is used, by whomever, less the segments.
  std::optional<std::size_t> outside() const override {
    std::size_t free = 0, all = 0;
    if (!is_current() || cudaMemGetInfo(&free, &all) != cudaSuccess || all - free < held_) return std::nullopt;
    return all - free - held_;
  }

 private:
  /// Makes it so; without throwing, as what calls may not.
  bool is_current() const noexcept {
    if (current != index_ && cudaSetDevice(index_) == cudaSuccess) current = index_;
    return current == index_;
  }

  int index_;
  std::size_t capacity_ = 0, held_ = 0;
};

}  // namespace

void check(cudaError_t status) {
  if (status == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // said here, and not once more by the next launch
  fail<Error>("CUDA: ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
}

cudaStream_t stream_of(Device device) {
  const Opened& opened = enter(device.index);
  return current_stream.stream && current_stream.index == device.index ? current_stream.stream : opened.stream;
}

int processors(Device device) { return opened(device.index).processors; }
int capability(Device device) { return opened(device.index).capability; }

unsigned blocks_for(std::int64_t n, Device device) {
  const std::int64_t most = std::int64_t{processors(device)} * 16;
  return static_cast<unsigned>(std::clamp<std::int64_t>((n + block_size - 1) / block_size, 1, most));
}

std::unique_ptr<memory::Upstream> device_memory(int index) { return std::make_unique<DeviceUpstream>(index); }

// Pageable memory of the host was read when the call returns. Of pinned memory, and of another device's, whoever holds
// it must not let go before the copy ends.
bool is_read_later(Place<const void*> from) {
  if (from.device != Device::cpu()) return true;
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, from.data));
  return attributes.type != cudaMemoryTypeUnregistered;
}

void transfer(Place<const void*> from, Place<void*> to, std::size_t bytes) {
  const bool to_host = to.device == Device::cpu();
  const Device device = to_host ? from.device : to.device;
  if (!to_host && from.device != Device::cpu()) synchronize(from.device.index);
  const cudaStream_t stream = stream_of(device);
  check(cudaMemcpyAsync(to.data, from.data, bytes, cudaMemcpyDefault, stream));
  if (to_host)
    synchronize(device.index);
  else if (is_read_later(from))
    check(cudaStreamSynchronize(stream));
}

void synchronize(int index) {
  const Opened& device = enter(index);
  check(cudaStreamSynchronize(device.stream));
  throw_fault_of(device);
}

DeviceFault* fault_of(Device device) { return opened(device.index).fault; }

int device_count() { return found().count; }

}  // namespace bytetape::cuda
