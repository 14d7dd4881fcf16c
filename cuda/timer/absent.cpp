// Replaces the timer in builds without CUPTI's header.
#include "bytetape/core/error.h"
#include "bytetape/cuda/timer/replaced_node.h"
#include "bytetape/cuda/timer/timer.h"

namespace bytetape::cuda {

memory::DeviceTimer& device_timer() {
  fail<DeviceError>(
      "device times: this build has no CUPTI, because cupti.h was not found in the CUDA toolkit when it was "
      "configured: install it (Debian: libcupti-dev) and build again");
}

bool is_timing_steps() { return false; }
bool times_launches() { return false; }

void note_replaced_node(cudaGraphNode_t, cudaGraphNode_t) {}

}  // namespace bytetape::cuda
