#include "bytetape/cuda/runtime/runtime.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "bytetape/core/device/stream.h"
#include "bytetape/core/error.h"
#include "bytetape/core/memory/allocator/upstream.h"
#include "bytetape/core/memory/ledger/host_wait.h"
#include "bytetape/cuda/ambient.h"
#include "bytetape/cuda/cuda.h"
#include "bytetape/cuda/runtime/compiled.h"
#include "bytetape/cuda/runtime/fault.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/lost.h"
#include "bytetape/cuda/runtime/nvml.h"
#include "bytetape/cuda/runtime/per_device.h"
#include "bytetape/cuda/runtime/streams.h"

namespace bytetape::cuda {
namespace {

constexpr int oldest_major = 8;  // Ampere, the oldest architecture that the kernels support

/// Makes the device current. Asks CUDA for the current device, because other code may have changed it.
cudaError_t make_current(int index) noexcept {
  int now = -1;
  cudaError_t status = cudaGetDevice(&now);
  if (status == cudaSuccess && now != index) status = cudaSetDevice(index);
  if (status == cudaSuccess) ambient.current_device = index;
  return status;
}

/// A checked device with its streams.
struct Opened {
  Streams streams;
  Marks marks;
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
    check(make_current(index));
    check_compiled_for(index, properties);
    streams.get(0);
  }

 private:
  static void check_compiled_for(int index, const cudaDeviceProp& properties) {
    const cudaError_t status = status_of_code();
    cudaGetLastError();
    bytetape::check<DeviceError>(status != cudaErrorNoKernelImageForDevice && status != cudaErrorUnsupportedPtxVersion,
                                 "cuda:", index, " is a ", properties.name, " of compute capability ", properties.major,
                                 ".", properties.minor, ", for which this bytetape was not compiled: build it with ",
                                 "-DCMAKE_CUDA_ARCHITECTURES=", properties.major, properties.minor);
    check(status);
  }
};

Opened& opened(int index) {
  return once_per_device(index, [index] { return Opened(index); });
}

Opened& enter(int index) {
  Opened& device = opened(index);
  check(make_current(index));
  return device;
}

/// As make_current(), for destructors: at the end of the process, the driver may be gone.
bool is_current(int index) noexcept { return make_current(index) == cudaSuccess; }

/// The streams that record this thread's work on a device; null if nothing is recorded.
Streams* recording_of(int index) { return ambient.recording.index == index ? ambient.recording.streams : nullptr; }

Streams& where_work_goes(Opened& device, int index) {
  Streams* const recording = recording_of(index);
  return recording ? *recording : device.streams;
}

/// Records a copy between the device and pinned memory.
void record_copy(Streams& recording, const void* from, void* to, std::size_t bytes) {
  ambient.overlapping.stream = nullptr;  // its writes are not listed
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, recording.get(memory::ambient.scope.stream)));
}

/// Memory from the driver for a device.
class DriverUpstream : public memory::Upstream {
 public:
  explicit DriverUpstream(int index) : index_(index) { enter(index); }
  void* allocate(std::size_t bytes) noexcept override {
    void* data = nullptr;
    status_ = make_current(index_);
    if (status_ == cudaSuccess) {
      const OutsideRecording outside;
      status_ = take(&data, bytes);
    }
    if (status_ != cudaSuccess) {
      cudaGetLastError();  // check_failure() reports the error, not the next launch
      return nullptr;
    }
    held_ += bytes;
    return data;
  }
  void check_failure() override {
    const cudaError_t status = std::exchange(status_, cudaSuccess);
    if (status != cudaErrorMemoryAllocation) check(status);
  }
  void deallocate(void* data, std::size_t bytes) noexcept override {
    if (is_current(index_)) {
      const OutsideRecording outside;
      give_back(data);
    }
    held_ -= bytes;
  }

 protected:
  virtual cudaError_t take(void** data, std::size_t bytes) noexcept = 0;
  virtual void give_back(void* data) noexcept = 0;

  const int index_;
  std::size_t held_ = 0;

 private:
  cudaError_t status_ = cudaSuccess;  // status of the last allocate()
};

/// Device memory. Segments are few and large. Freeing one waits for the device, so all work on it has ended.
class DeviceUpstream final : public DriverUpstream {
 public:
  explicit DeviceUpstream(int index) : DriverUpstream(index) {
    std::size_t free = 0;
    check(cudaMemGetInfo(&free, &capacity_));
  }
  std::size_t capacity() const override { return capacity_; }
  /// Returns the used memory of the device, by all processes, without the segments.
  std::optional<memory::Outside> outside() const override {
    std::size_t free = 0, all = 0;
    if (!is_current(index_) || cudaMemGetInfo(&free, &all) != cudaSuccess || all - free < held_) return std::nullopt;
    memory::Outside used{all - free - held_, {}};
    // Less than the segments cannot be our usage: in a container, another process may have this process's number.
    if (const std::optional<std::size_t> ours = process_bytes(index_); ours && *ours >= held_)
      used.others = all - free - std::min(all - free, *ours);
    return used;
  }

 private:
  cudaError_t take(void** data, std::size_t bytes) noexcept override { return cudaMalloc(data, bytes); }
  void give_back(void* data) noexcept override { cudaFree(data); }

  std::size_t capacity_ = 0;
};

/// Pinned host memory, which every device can read.
class PinnedUpstream final : public DriverUpstream {
 public:
  using DriverUpstream::DriverUpstream;
  std::size_t capacity() const override { return memory::HostUpstream().capacity(); }

 private:
  cudaError_t take(void** data, std::size_t bytes) noexcept override {
    return cudaHostAlloc(data, bytes, cudaHostAllocPortable);
  }
  void give_back(void* data) noexcept override { cudaFreeHost(data); }
};

}  // namespace

cudaStream_t stream_of(Device device) {
  note_launch(device.index);
  ambient.overlapping.stream = nullptr;
  return where_work_goes(enter(device.index), device.index).get(memory::ambient.scope.stream);
}
Streams& streams_of(int index) { return enter(index).streams; }
Streams& streams_for_work(int index) { return where_work_goes(enter(index), index); }
void synchronize_streams(int index) { enter(index).streams.synchronize(); }

int processors(Device device) { return opened(device.index).processors; }
int capability(Device device) { return opened(device.index).capability; }

unsigned blocks_for(std::int64_t n, Device device) {
  const std::int64_t most = std::int64_t{processors(device)} * 16;
  return static_cast<unsigned>(std::clamp<std::int64_t>((n + block_size - 1) / block_size, 1, most));
}

std::unique_ptr<memory::Upstream> device_memory(int index) { return std::make_unique<DeviceUpstream>(index); }
std::unique_ptr<memory::Upstream> pinned_host_memory(int index) { return std::make_unique<PinnedUpstream>(index); }

// When cudaMemcpyAsync returns, pageable host memory has been read, but pinned host memory may not have been. Memory of
// another device must not be freed before the copy ends.
void transfer(Place<const void*> from, Place<void*> to, std::size_t bytes) {
  const bool to_host = to.device == Device::cpu(), from_host = from.device == Device::cpu();
  const Device device = to_host ? from.device : to.device;
  if (!to_host && !from_host) synchronize(from.device.index);
  const int number = memory::ambient.scope.stream;
  Streams& streams = enter(device.index).streams;
  if (Streams* const recording = recording_of(device.index); recording && from_host)
    return record_copy(*recording, from.data, to.data, bytes);
  const auto copy = [&] { check(cudaMemcpyAsync(to.data, from.data, bytes, cudaMemcpyDefault, streams.get(number))); };
  if (from_host) return copy();
  {
    const memory::HostWait wait;  // a copy to pageable memory waits too
    copy();
    check(cudaStreamSynchronize(streams.get(number)));
  }
  if (!to_host) return;
  if (streams.is_only(number)) forget_launches(device.index);
  throw_pending_fault(device.index);  // first, as it may be why the collectives were ended
  throw_if_lost(device.index);
}

void to_pinned(int index, const void* from, void* to, std::size_t bytes) {
  Streams& streams = enter(index).streams;
  if (Streams* const recording = recording_of(index)) return record_copy(*recording, from, to, bytes);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, streams.get(memory::ambient.scope.stream)));
}

void synchronize(int index) {
  synchronize_streams(index);
  forget_launches(index);
  throw_pending_fault(index);  // first, as it may be why the collectives were ended
  throw_if_lost(index);
}

void order(int index, int from, int to) noexcept {
  ambient.overlapping.stream = nullptr;  // what runs on the other stream is not known
  Opened& device = opened(index);
  Streams& streams = where_work_goes(device, index);
  const cudaError_t status = make_current(index);
  status == cudaSuccess ? streams.order(from, to) : streams.note_failure(status);
}
// Marks of mark() belong to the device's own streams, as do the streams that wait for them. A recorded mark is of a
// copy. Outside its recording, the device's stream for copies stands for it, which waits for each replay.
void wait_mark(int index, std::uint64_t mark, int to) noexcept {
  ambient.overlapping.stream = nullptr;
  Opened& device = opened(index);
  const cudaError_t status = make_current(index);
  Streams* const recording = recording_of(index);
  if (status == cudaSuccess && RecordedMarks::is_one(mark)) {
    if (recording && recording->recorded_marks().has(mark))
      return recording->recorded_marks().wait_mark(mark, *recording, to);
    return device.streams.order(Stream::for_copies().number(), to);
  }
  status == cudaSuccess ? device.marks.wait_mark(mark, device.streams, to) : device.streams.note_failure(status);
}
std::uint64_t mark(int index) {
  Opened& device = enter(index);
  return device.marks.mark(device.streams, memory::ambient.scope.stream);
}
std::uint64_t recorded_mark(int index) {
  enter(index);
  Streams* const recording = recording_of(index);
  bytetape::check<CaptureError>(recording, "cuda:", index, " records no work of this thread");
  return recording->recorded_marks().mark(*recording, memory::ambient.scope.stream);
}
void wait_for(int index, std::uint64_t mark) noexcept {
  if (RecordedMarks::is_one(mark)) return;
  Opened& device = opened(index);
  const cudaError_t status = make_current(index);
  status == cudaSuccess ? device.marks.wait_for(mark) : device.streams.note_failure(status);
}

MemoryInfo mem_get_info(int index) {
  check_there(index);
  enter(index);  // the driver answers for the current device
  MemoryInfo m;
  check(cudaMemGetInfo(&m.free, &m.total));
  return m;
}

}  // namespace bytetape::cuda
