#include "bytetape/cuda/fault.h"

#include <array>
#include <atomic>
#include <mutex>

#include "bytetape/core/memory/scope.h"
#include "bytetape/cuda/launch.h"
#include "bytetape/cuda/runtime.h"
#include "bytetape/cuda/streams.h"

namespace bytetape::cuda {
namespace {

// Each device has its own, beside the kernels' code: memory that an allocator would have to give is not needed, and a
// device on which nothing was made yet holds 0 bytes.
__device__ unsigned pending_word;

struct Faults {
  FaultPlaces places{};
  std::mutex mutex;  // of who throws
  std::atomic<std::uint64_t> thrown{0};

  explicit Faults(Device device) {
    const OutsideRecording outside;
    stream_of(device);  // makes the device current
    check(cudaGetSymbolAddress(reinterpret_cast<void**>(&places.pending), pending_word));
    check(cudaHostAlloc(reinterpret_cast<void**>(&places.record), sizeof(FaultRecord),
                        cudaHostAllocMapped | cudaHostAllocPortable));
    *places.record = {};
  }
};

/// By device. Never destroyed: kernels may write there to the end of the process.
std::array<std::atomic<Faults*>, 256> all;

Faults* faults_if_any(int index) { return all[static_cast<std::size_t>(index)].load(std::memory_order_acquire); }

Faults& faults(Device device) {
  static std::mutex mutex;
  if (Faults* made = faults_if_any(device.index)) return *made;
  const std::lock_guard lock(mutex);
  if (!faults_if_any(device.index)) all[device.index].store(new Faults(device), std::memory_order_release);
  return *faults_if_any(device.index);
}

__global__ void forget_kernel(FaultPlaces places) {
  *places.pending = 0;
  atomicExch_system(&places.record->state, +FaultRecord::free);
}

}  // namespace

FaultPlaces fault_places(Device device) { return faults(device).places; }

void throw_pending_fault(int index) {
  Faults* f = faults_if_any(index);
  if (!f) return;
  const std::atomic_ref state(f->places.record->state);
  if (state.load(std::memory_order_acquire) != FaultRecord::written) return;
  std::unique_lock lock(f->mutex);
  if (state.load(std::memory_order_acquire) != FaultRecord::written) return;  // another thread has thrown it
  const FaultRecord left = *f->places.record;
  ++f->thrown;  // first: an optimizer whose next step is not skipped must know of it
  // All that was launched before it is thrown finds it pending.
  synchronize_streams(index);
  const cudaStream_t stream = stream_of(Device::cuda(index));
  forget_kernel<<<1, 1, 0, stream>>>(f->places);
  check_launch();
  check(cudaStreamSynchronize(stream));
  forget_launches(index);
  lock.unlock();
  const memory::ScopeGuard scope(memory::current_scope.with(left.module, left.op, memory::current_scope.phase));
  throw_fault(left.fault);
}

std::uint64_t faults_thrown(int index) {
  const Faults* f = faults_if_any(index);
  return f ? f->thrown.load() : 0;
}

}  // namespace bytetape::cuda
