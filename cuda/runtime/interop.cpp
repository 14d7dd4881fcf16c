#include "bytetape/cuda/runtime/interop.h"

#include <cuda.h>

#include "bytetape/core/device/interop.h"
#include "bytetape/core/error.h"
#include "bytetape/cuda/cuda.h"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/runtime/streams.h"

namespace bytetape::cuda {
namespace {

cudaError_t order_by_event(cudaStream_t first, cudaStream_t second) noexcept {
  cudaEvent_t event = nullptr;
  cudaError_t status = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (status == cudaSuccess) status = cudaEventRecord(event, first);
  if (status == cudaSuccess) status = cudaStreamWaitEvent(second, event, 0);
  if (event) cudaEventDestroy(event);  // the driver keeps it until the stream has passed it
  return status;
}

/// Returns a function of the driver's library, which is loaded but not linked. Returns null if it is missing.
template <class Function>
Function* driver_function(const char* name) noexcept {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  const cudaError_t status = cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
#else
  const cudaError_t status = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (status != cudaSuccess) cudaGetLastError();
  return status == cudaSuccess ? reinterpret_cast<Function*>(found) : nullptr;
}

/// Whether the process uses the device. If not, making the device current would give it a context of half a GB.
bool has_context(int index) noexcept {
  static auto* const state = driver_function<CUresult(CUdevice, unsigned*, int*)>("cuDevicePrimaryCtxGetState");
  unsigned flags = 0;
  int is_active = 0;
  return state && state(index, &flags, &is_active) == CUDA_SUCCESS && is_active;
}

}  // namespace

void check_address(int index, const void* data) {
  streams_of(index);  // throws if the device is not there
  cudaPointerAttributes its{};
  check(cudaPointerGetAttributes(&its, data));
  const bool is_here = its.type == cudaMemoryTypeManaged || (its.type == cudaMemoryTypeDevice && its.device == index);
  bytetape::check<DeviceError>(is_here, "the memory at ", data, " is not on ", Device::cuda(index));
}

void* stream_handle(int index, int stream) {
  Streams& streams = streams_of(index);
  const cudaStream_t made = streams.made(stream);
  return made ? made : streams.get(stream);
}

bool is_recorded(int, void* stream) noexcept {
  cudaStreamCaptureStatus now = cudaStreamCaptureStatusNone;
  const cudaError_t status = cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &now);
  if (status == cudaSuccess) return now != cudaStreamCaptureStatusNone;
  cudaGetLastError();
  return status == cudaErrorStreamCaptureImplicit;  // the default stream may not be used while others are recorded
}

void order_handles(int index, void* first, void* second) noexcept {
  try {
    Streams& streams = streams_of(index);
    const OutsideRecording outside;
    if (first == second || is_recorded(index, first) || is_recorded(index, second)) return;
    const auto earlier = static_cast<cudaStream_t>(first), later = static_cast<cudaStream_t>(second);
    if (order_by_event(earlier, later) == cudaSuccess) return;
    cudaGetLastError();
    if (const cudaError_t status = cudaStreamSynchronize(earlier); status != cudaSuccess) {
      cudaGetLastError();
      streams.note_failure(status);
    }
  } catch (const Error&) {}  // the GPU is lost, and does no more work
}

void wait_for_all(int index) noexcept {
  const CurrentDevice current(Device::cuda(index));
  if (cudaDeviceSynchronize() != cudaSuccess) cudaGetLastError();
}

int set_current(int index) noexcept {
  int previous = index;
  cudaError_t status = cudaGetDevice(&previous);
  if (status == cudaSuccess && previous != index && has_context(index)) status = cudaSetDevice(index);
  if (status != cudaSuccess) cudaGetLastError();
  return previous;
}

}  // namespace bytetape::cuda
