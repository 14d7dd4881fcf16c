#include "bytetape/cuda/collective/rank_faults.h"

#include "bytetape/cuda/runtime/fault.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/runtime.h"

namespace bytetape::cuda {
namespace {

__global__ void note_kernel(const unsigned* pending, float* y, float number) { *y = *pending != 0 ? number : 0; }

/// A rank with a fault of its own keeps it.
__global__ void leave_kernel(const float* x, FaultSlot slot) {
  if (*x != 0 && *slot.pending == 0) leave(slot, {Fault::Kind::other_rank, static_cast<std::int64_t>(*x) - 1});
}

}  // namespace

void note_fault(const View& y, int rank) {
  const auto lock = hold_faults(y.device);
  const unsigned* const pending = settled_pending(y.device);
  note_kernel<<<1, 1, 0, stream_of(y.device)>>>(pending, y.as<float>(), static_cast<float>(rank + 1));
  check_launch();
}

void leave_fault(const ConstView& x) {
  const FaultSlot slot(x.device);
  const auto lock = hold_faults(x.device);
  settled_pending(x.device);  // a fault of a stream that this one has waited for counts
  leave_kernel<<<1, 1, 0, stream_of(x.device)>>>(x.as<float>(), slot);
  check_launch();
}

}  // namespace bytetape::cuda
