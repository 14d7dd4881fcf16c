#include "bytetape/cuda/runtime.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "bytetape/core/error.h"
#include "bytetape/core/memory/upstream.h"
#include "bytetape/cuda/cuda.h"
#include "bytetape/cuda/fault.h"
#include "bytetape/cuda/launch.h"

namespace bytetape::cuda {
namespace {

constexpr int oldest_major = 8;  // Ampere: what the kernels are compiled for

/// A device that was checked, and its stream.
struct Opened {
  cudaStream_t stream = nullptr;
  int processors = 0, capability = 0;

  explicit Opened(int index) {
    check_there(index);
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, index));
    bytetape::check<DeviceError>(properties.major >= oldest_major, "cuda:", index, " is a ", properties.name,
                                 " of compute capability ", properties.major, ".", properties.minor,
                                 ", and bytetape needs 8.0 or newer");
    processors = properties.multiProcessorCount;
    capability = 10 * properties.major + properties.minor;
    check(cudaSetDevice(index));
    current_device = index;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
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
  if (current_device != index) {
    check(cudaSetDevice(index));
    current_device = index;
  }
  return device;
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
    status_ = is_current() ? cudaMalloc(&data, bytes) : cudaGetLastError();
    if (status_ != cudaSuccess) {
      cudaGetLastError();  // said by check_failure(), and not once more by the next launch
      return nullptr;
    }
    held_ += bytes;
    return data;
  }
  void check_failure() override {
    const cudaError_t status = std::exchange(status_, cudaSuccess);
    if (status != cudaErrorMemoryAllocation) check(status);
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
    if (current_device != index_ && cudaSetDevice(index_) == cudaSuccess) current_device = index_;
    return current_device == index_;
  }

  int index_;
  std::size_t capacity_ = 0, held_ = 0;
  cudaError_t status_ = cudaSuccess;  // of the last allocate()
};

}  // namespace

cudaStream_t stream_of(Device device) {
  note_launch(device.index);
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
  const cudaStream_t stream = enter(device.index).stream;
  check(cudaMemcpyAsync(to.data, from.data, bytes, cudaMemcpyDefault, stream));
  if (to_host)
    synchronize(device.index);
  else if (is_read_later(from))
    check(cudaStreamSynchronize(stream));
}

void synchronize(int index) {
  const Opened& device = enter(index);
  check(cudaStreamSynchronize(device.stream));
  forget_launches(index);
  throw_pending_fault(index);
}

MemoryInfo mem_get_info(int index) {
  enter(index);  // the driver tells of the current device
  MemoryInfo m;
  check(cudaMemGetInfo(&m.free, &m.total));
  return m;
}

}  // namespace bytetape::cuda
