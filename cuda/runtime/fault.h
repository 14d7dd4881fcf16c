#pragma once
#include <cstdint>
#include <mutex>

#include "bytetape/core/device/device.h"
#include "bytetape/core/device/fault.h"
#include "bytetape/core/memory/ambient.h"

namespace bytetape::cuda {

/// What a kernel leaves for the host: one for each stream of a device, in pinned host memory that the device maps. The
/// stream's first kernel that finds it free keeps it; the host reads it once it is written, after waiting for the
/// stream.
struct alignas(128) FaultRecord {
  enum State : unsigned { free, written };
  unsigned state = free;
  memory::NameId op = 0, module = 0;  // whose kernel left it
  Fault fault;
};

/// Where the faults of a stream go.
struct FaultPlaces {
  FaultRecord* record;
  unsigned* pending;  // on the device: 1 while steps on the stream are to be skipped. Only its own work writes it
  unsigned* claimed;  // on the device: 1 from when a kernel begins to write the record until it is forgotten
};

/// Those of the thread's stream. Made when first asked for.
FaultPlaces fault_places(Device device);
/// The same word of the thread's stream, once it has taken over what the streams have left that it waited for: then
/// nothing changes it but what the stream is given.
/// The caller holds the faults.
const unsigned* settled_pending(Device device);
/// Throws what a kernel has left, in the name of its op. The host has waited for the device. Before it is thrown each
/// stream forgets the faults of what it was given so far.
void throw_pending_fault(int index);
/// No fault of the device is forgotten while it is held.
std::unique_lock<std::mutex> hold_faults(Device device);

/// Where a kernel leaves a fault, and in whose name: an argument of its launch.
struct FaultSlot : FaultPlaces {
  memory::NameId op, module;

  explicit FaultSlot(Device device)
      : FaultPlaces(fault_places(device)), op(memory::ambient.scope.op), module(memory::ambient.scope.module) {}
};

#ifdef __CUDACC__
__device__ inline bool is_taken(const FaultSlot& slot) {
  return *static_cast<const volatile unsigned*>(slot.claimed) != 0;
}

/// Keeps `fault` where none is kept. Which one of a launch's that is, is for the kernel to make the same in every run:
/// only one thread of a launch may come here, as a rule the one whose element comes first.
__device__ inline void leave(const FaultSlot& slot, const Fault& fault) {
  if (atomicCAS(slot.claimed, 0u, 1u) != 0) return;  // a GPU has no atomics in the host's memory
  *slot.pending = 1;
  slot.record->op = slot.op;
  slot.record->module = slot.module;
  slot.record->fault = fault;
  __threadfence_system();  // the host may look while another thread's kernel writes
  *static_cast<volatile unsigned*>(&slot.record->state) = FaultRecord::written;
}

/// The same for the lowest row that has a fault, as on the CPU; looking for one costs only who has one.
template <class F>
__device__ void leave_if_first(const FaultSlot& slot, const Fault& fault, std::int64_t row, const F& is_fault) {
  if (is_taken(slot)) return;
  for (std::int64_t i = 0; i < row; ++i)
    if (is_fault(i)) return;
  leave(slot, fault);
}
#endif

}  // namespace bytetape::cuda
