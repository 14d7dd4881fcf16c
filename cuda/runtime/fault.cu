#include "bytetape/cuda/runtime/fault.h"

#include <array>
#include <atomic>
#include <bit>
#include <mutex>

#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/cuda/ambient.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/per_device.h"
#include "bytetape/cuda/runtime/runtime.h"
#include "bytetape/cuda/runtime/streams.h"

namespace bytetape::cuda {
namespace {

// A fault belongs to a stream, and so does the word that tells steps of a pending fault. Only work of the stream writes
// the word: a kernel that reports a fault, take_over_kernel and forget_kernel. So other streams cannot change the word
// while a step runs. Before a step, the stream takes over the faults of the streams that it has waited for.

// Each device has its own words, as device variables of the kernels' module. So they need no allocator, and an unused
// device holds 0 bytes.
__device__ unsigned pending_words[memory::stream_count], claimed_words[memory::stream_count];

constexpr std::uint32_t bit(int stream) { return std::uint32_t{1} << stream; }

struct Faults {
  unsigned* pending = nullptr;         // by stream
  unsigned* claimed = nullptr;         // by stream
  FaultRecord* records = nullptr;      // by stream
  std::atomic<std::uint32_t> used{0};  // bit per stream that may have left or taken over a fault
  std::mutex mutex;                    // held while a fault is thrown
  std::atomic<std::uint64_t> thrown{0};

  explicit Faults(Device device) {
    stream_of(device);  // makes the device current
    const OutsideRecording outside;
    check(cudaGetSymbolAddress(reinterpret_cast<void**>(&pending), pending_words));
    check(cudaGetSymbolAddress(reinterpret_cast<void**>(&claimed), claimed_words));
    check(cudaHostAlloc(reinterpret_cast<void**>(&records), memory::stream_count * sizeof(FaultRecord),
                        cudaHostAllocMapped | cudaHostAllocPortable));
    for (int i = 0; i < memory::stream_count; ++i) records[i] = {};
  }
  FaultPlaces places(int stream) const { return {records + stream, pending + stream, claimed + stream}; }
  void use(int stream) {
    if (!(used.load(std::memory_order_relaxed) & bit(stream))) used.fetch_or(bit(stream));
  }
  /// Calls f(stream) for the streams in `used`.
  template <class F>
  void for_each_used(const F& f) const {
    for (std::uint32_t rest = used.load(); rest != 0; rest &= rest - 1) f(std::countr_zero(rest));
  }
  /// Returns a stream whose record is written. A fault of this rank, whose op and value are known, comes before one of
  /// another rank.
  int first_written() const {
    const std::uint32_t all = written();
    for (std::uint32_t rest = all; rest != 0; rest &= rest - 1)
      if (const int stream = std::countr_zero(rest); records[stream].fault.kind != Fault::Kind::other_rank)
        return stream;
    return std::countr_zero(all);
  }
  /// Returns the streams whose record is written, a bit for each.
  std::uint32_t written() const {
    std::uint32_t all = 0;
    for_each_used([&](int stream) {
      const std::atomic_ref state(records[stream].state);
      if (state.load(std::memory_order_acquire) == FaultRecord::written) all |= bit(stream);
    });
    return all;
  }
};

/// Faults by device. Never destroyed, because kernels may write to them until the process ends.
std::array<std::atomic<Faults*>, most_devices> all;

Faults* faults_if_any(int index) { return all[static_cast<std::size_t>(index)].load(std::memory_order_acquire); }

Faults& faults(Device device) {
  static std::mutex mutex;
  if (Faults* made = faults_if_any(device.index)) return *made;
  const std::lock_guard lock(mutex);
  if (!faults_if_any(device.index)) all[device.index].store(new Faults(device), std::memory_order_release);
  return *faults_if_any(device.index);
}

/// `was_written`: whether the host saw the record as written. A later fault is kept, and thrown when the host looks
/// again.
__global__ void forget_kernel(FaultPlaces places, bool was_written) {
  if (!was_written && *places.claimed != 0) return;
  *places.pending = 0;
  *static_cast<volatile unsigned*>(&places.record->state) = FaultRecord::free;
  *places.claimed = 0;
}

/// Sets the word of stream `to` if a word of the streams `from` is set.
__global__ void take_over_kernel(unsigned* pending, std::uint32_t from, int to) {
  for (; from != 0; from &= from - 1)
    if (static_cast<const volatile unsigned*>(pending)[__ffs(static_cast<int>(from)) - 1]) pending[to] = 1;
}

}  // namespace

FaultPlaces fault_places(Device device) {
  Faults& f = faults(device);
  const int here = memory::ambient.scope.stream;
  f.use(here);
  return f.places(here);
}

const unsigned* settled_pending(Device device) {
  Faults& f = faults(device);
  const cudaStream_t stream = stream_of(device);
  Streams& streams = streams_for_work(device.index);
  const int here = memory::ambient.scope.stream;
  const std::uint32_t waited_for = streams.take_waits(here);
  // A recorded step takes over from any stream, because replays may follow faults of streams that have left none yet.
  const std::uint32_t may_have_left = ambient.recording.streams == &streams ? ~std::uint32_t{0} : f.used.load();
  if (const std::uint32_t from = waited_for & may_have_left & ~bit(here)) {
    f.use(here);
    take_over_kernel<<<1, 1, 0, stream>>>(f.pending, from, here);
    if (const cudaError_t status = cudaPeekAtLastError(); status != cudaSuccess) streams.note_waits(here, waited_for);
    check_launch();
  }
  return f.pending + here;
}

void throw_pending_fault(int index) {
  Faults* f = faults_if_any(index);
  if (!f || f->written() == 0) return;
  std::unique_lock lock(f->mutex);
  if (f->written() == 0) return;  // another thread has thrown it
  const FaultRecord left = f->records[f->first_written()];
  ++f->thrown;  // first, for optimizers whose next step is not skipped
  // Work that was launched before the throw must still find the fault pending.
  synchronize_streams(index);
  const std::uint32_t written = f->written();
  Streams& streams = streams_of(index);
  f->for_each_used([&](int stream) {
    const bool was_written = (written & bit(stream)) != 0;
    forget_kernel<<<1, 1, 0, streams.get(stream)>>>(f->places(stream), was_written);
    check_launch();
  });
  synchronize_streams(index);
  forget_launches(index);
  lock.unlock();
  ++ambient.faults_thrown;
  const memory::ScopeGuard scope(memory::ambient.scope.with(left.module, left.op, memory::ambient.scope.phase));
  throw_fault(left.fault);
}

std::unique_lock<std::mutex> hold_faults(Device device) { return std::unique_lock(faults(device).mutex); }

std::uint64_t faults_thrown(int index) {
  const Faults* f = faults_if_any(index);
  return f ? f->thrown.load() : 0;
}

}  // namespace bytetape::cuda
