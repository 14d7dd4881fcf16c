#include <cuda_runtime_api.h>

#include "bytetape/core/memory/ledger/host_wait.h"
#include "bytetape/cuda/cuda.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/runtime.h"

namespace bytetape::cuda {
namespace {
cudaEvent_t of(void* event) { return static_cast<cudaEvent_t>(event); }
}  // namespace

Event::Event(int index) : index_(index) {
  check_there(index);
  stream_of(Device::cuda(index));  // makes the device current
  cudaEvent_t made = nullptr;
  check(cudaEventCreate(&made));
  event_ = made;
}

Event::~Event() { cudaEventDestroy(of(event_)); }

void Event::record() { check(cudaEventRecord(of(event_), stream_of(Device::cuda(index_)))); }

double Event::elapsed_time(const Event& end) const {
  const memory::HostWait wait;
  float milliseconds = 0;
  for (const Event* e : {this, &end}) check(cudaEventSynchronize(of(e->event_)));
  check(cudaEventElapsedTime(&milliseconds, of(event_), of(end.event_)));
  return milliseconds;
}

}  // namespace bytetape::cuda
