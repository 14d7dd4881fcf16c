#pragma once
#include <cstdint>
#include <mutex>

#include "bytetape/core/device/device.h"
#include "bytetape/core/device/fault.h"
#include "bytetape/core/memory/ambient.h"

namespace bytetape::cuda {

/// A fault that a kernel reports to the host. Each stream of a device has one record, in pinned host memory that the
/// device maps. The stream's first kernel that finds the record free writes it. The host reads it after waiting for the
/// stream.
struct alignas(128) FaultRecord {
  enum State : unsigned { free, written };
  unsigned state = free;
  memory::NameId op = 0, module = 0;  // op and module of the kernel that wrote it
  Fault fault;
};

/// The addresses of a stream's fault state.
struct FaultPlaces {
  FaultRecord* record;
  unsigned* pending;  // on the device: 1 while steps on the stream are skipped; written by the stream's own work only
  unsigned* claimed;  // on the device: 1 from when a kernel begins to write the record until the fault is forgotten
};

/// Returns the addresses of the thread's stream. They are made on first use.
FaultPlaces fault_places(Device device);
/// Returns `pending` of the thread's stream, after it took over the pending faults of the streams that it waited for.
/// After that only the stream's own later work changes the word. The caller must hold hold_faults().
const unsigned* settled_pending(Device device);
/// Throws a kernel's fault under the name of its op, if there is one. The host must have waited for the device. Before
/// the throw, each stream forgets the faults of its work so far.
void throw_pending_fault(int index);
/// Returns a lock. No fault of the device is forgotten while it is held.
std::unique_lock<std::mutex> hold_faults(Device device);

/// A kernel argument: the place for its faults, and the names of its op and module.
struct FaultSlot : FaultPlaces {
  memory::NameId op, module;

  explicit FaultSlot(Device device)
      : FaultPlaces(fault_places(device)), op(memory::ambient.scope.op), module(memory::ambient.scope.module) {}
};

#ifdef __CUDACC__
__device__ inline bool is_taken(const FaultSlot& slot) {
  return *static_cast<const volatile unsigned*>(slot.claimed) != 0;
}

/// Reports `fault` unless one is reported already. Only one thread of a launch may call this, the same in every run:
/// usually the one whose element comes first.
__device__ inline void leave(const FaultSlot& slot, const Fault& fault) {
  if (atomicCAS(slot.claimed, 0u, 1u) != 0) return;  // not on the record, because a GPU has no atomics in host memory
  *slot.pending = 1;
  slot.record->op = slot.op;
  slot.record->module = slot.module;
  slot.record->fault = fault;
  __threadfence_system();  // the host may read while a kernel of another thread writes
  *static_cast<volatile unsigned*>(&slot.record->state) = FaultRecord::written;
}

/// Reports `fault` if `row` is the first row with one, as on the CPU. Only threads with a fault search the earlier
/// rows.
template <class F>
__device__ void leave_if_first(const FaultSlot& slot, const Fault& fault, std::int64_t row, const F& is_fault) {
  if (is_taken(slot)) return;
  for (std::int64_t i = 0; i < row; ++i)
    if (is_fault(i)) return;
  leave(slot, fault);
}
#endif

}  // namespace bytetape::cuda
