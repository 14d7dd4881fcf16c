#pragma once
#include "bytetape/core/device.h"
#include "bytetape/core/fault.h"
#include "bytetape/core/memory/scope.h"

namespace bytetape::cuda {

/// What kernels leave for the host: one for each device, in pinned host memory that the device maps. The first kernel
/// that finds it free keeps it; the host reads it once it is written, after waiting for the stream, and frees it.
struct DeviceFault {
  enum State : unsigned { free, being_written, written };
  unsigned state = free;
  memory::NameId op = 0, module = 0;  // whose kernel left it
  Fault fault;
};

/// The record of a device.
DeviceFault* fault_of(Device device);

/// Where a kernel leaves a fault, and in whose name: an argument of its launch.
struct FaultSlot {
  DeviceFault* record;
  memory::NameId op, module;

  explicit FaultSlot(Device device)
      : record(fault_of(device)), op(memory::current_scope.op), module(memory::current_scope.module) {}
};

#ifdef __CUDACC__
__device__ inline bool is_taken(const FaultSlot& slot) {
  return *static_cast<const volatile unsigned*>(&slot.record->state) != DeviceFault::free;
}

/// Keeps `fault` where none is kept. Which one of a launch's that is, is for the kernel to make the same in every run:
/// only one thread of a launch may come here, as a rule the one whose element comes first.
__device__ inline void leave(const FaultSlot& slot, const Fault& fault) {
  if (atomicCAS_system(&slot.record->state, +DeviceFault::free, +DeviceFault::being_written) != DeviceFault::free)
    return;
  slot.record->op = slot.op;
  slot.record->module = slot.module;
  slot.record->fault = fault;
  __threadfence_system();  // the host may look while another thread's kernel writes
  atomicExch_system(&slot.record->state, +DeviceFault::written);
}
#endif

}  // namespace bytetape::cuda
