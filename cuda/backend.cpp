// Host code of the backend. It needs no toolkit, so that a machine without a GPU can predict a GPU's memory.
#include "bytetape/core/device/backend.h"

#include <memory>

#include "bytetape/core/device/interop.h"
#include "bytetape/core/memory/allocator/meta_allocators.h"
#include "bytetape/cuda/precision.h"
#include "bytetape/cuda/runtime/interop.h"
#include "bytetape/cuda/runtime/per_device.h"
#include "bytetape/cuda/runtime/runtime.h"
#include "bytetape/cuda/timer/timer.h"

namespace bytetape {
namespace {

memory::Allocator& allocator(int index) {
  return *cuda::once_per_device(index, [&] {
    return std::make_unique<memory::Allocator>(Device::cuda(index), cuda::device_memory(index),
                                               memory::mode_from_environment());
  });
}

memory::Allocator& meta_allocator(int index) {
  return *cuda::once_per_device(index, [&] {
    return memory::make_meta_allocator(Device::meta(Device::cuda(index)), memory::mode_from_environment());
  });
}

memory::PinnedMemory& pinned(int index) {
  return *cuda::once_per_device(index, [&] {
    return std::make_unique<memory::PinnedMemory>(Device::cuda(index), cuda::pinned_host_memory(index), cuda::wait_for,
                                                  memory::mode_from_environment());
  });
}

memory::PinnedMemory& meta_pinned(int index) {
  return *cuda::once_per_device(index, [&] {
    return memory::make_meta_pinned(Device::meta(Device::cuda(index)), memory::mode_from_environment());
  });
}

constexpr Interop interop{.check_address = cuda::check_address,
                          .stream_handle = cuda::stream_handle,
                          .is_recorded = cuda::is_recorded,
                          .order = cuda::order_handles,
                          .wait_for_all = cuda::wait_for_all,
                          .set_current = cuda::set_current};

}  // namespace

const Backend& detail::cuda_backend() {
  static const Backend all{.kernels = &cuda::kernels(),
                           .allocator = allocator,
                           .meta_allocator = meta_allocator,
                           .transfer = cuda::transfer,
                           .to_pinned = cuda::to_pinned,
                           .synchronize = cuda::synchronize,
                           .record = cuda::record,
                           .faults_thrown = cuda::faults_thrown,
                           .order = cuda::order,
                           .wait_mark = cuda::wait_mark,
                           .wait_host = cuda::wait_for,
                           .interop = &interop,
                           .pinned = pinned,
                           .meta_pinned = meta_pinned,
                           .mark = cuda::mark,
                           .recorded_mark = cuda::recorded_mark,
                           .device_timer = cuda::device_timer,
                           .rounds_to_tf32 = cuda::allow_tf32};
  return all;
}

}  // namespace bytetape
