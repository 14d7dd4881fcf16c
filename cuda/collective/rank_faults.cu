#include "bytetape/cuda/collective/rank_faults.h"

#include "bytetape/cuda/runtime/fault.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/runtime.h"

namespace bytetape::cuda {
namespace {

__global__ void note_kernel(const unsigned* pending, float* y) { *y = *pending != 0 ? 1 : 0; }

__global__ void leave_kernel(const float* x, FaultSlot slot) {
  if (*x != 0) leave(slot, {Fault::Kind::other_rank});
}

}  // namespace

void note_fault(const View& y) {
  const auto lock = hold_faults(y.device);
  const unsigned* const pending = settled_pending(y.device);
  note_kernel<<<1, 1, 0, stream_of(y.device)>>>(pending, y.as<float>());
  check_launch();
}

void leave_fault(const ConstView& x) {
  leave_kernel<<<1, 1, 0, stream_of(x.device)>>>(x.as<float>(), FaultSlot(x.device));
  check_launch();
}

}  // namespace bytetape::cuda
