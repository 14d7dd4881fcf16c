// The host's part, the same with and without a toolkit: so that a machine without a GPU predicts one's memory.
#include "bytetape/core/device/backend.h"

#include <array>
#include <memory>
#include <mutex>

#include "bytetape/core/memory/allocator/meta_allocators.h"
#include "bytetape/cuda/runtime/runtime.h"

namespace bytetape {
namespace {

constexpr std::size_t most_devices = 256;  // Device::index is a byte

/// One for each device, made when it is first asked for, and never destroyed: tensors in static storage may outlive it.
template <class Make>
auto& made_once(int index, const Make& make) {
  static auto* all = new std::array<decltype(make()), most_devices>;
  static std::array<std::once_flag, most_devices> made;
  const auto i = static_cast<std::size_t>(index);
  std::call_once(made[i], [&] { (*all)[i] = make(); });
  return *(*all)[i];
}

memory::Allocator& allocator(int index) {
  return made_once(index, [&] {
    return std::make_unique<memory::Allocator>(Device::cuda(index), cuda::device_memory(index),
                                               memory::mode_from_environment());
  });
}

memory::Allocator& meta_allocator(int index) {
  return made_once(index, [&] {
    return memory::make_meta_allocator(Device::meta(Device::cuda(index)), memory::mode_from_environment());
  });
}

memory::PinnedMemory& pinned(int index) {
  return made_once(index, [&] {
    return std::make_unique<memory::PinnedMemory>(Device::cuda(index), cuda::pinned_host_memory(index), cuda::wait_for,
                                                  memory::mode_from_environment());
  });
}

memory::PinnedMemory& meta_pinned(int index) {
  return made_once(index, [&] {
    return memory::make_meta_pinned(Device::meta(Device::cuda(index)), memory::mode_from_environment());
  });
}

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
                           .pinned = pinned,
                           .meta_pinned = meta_pinned,
                           .mark = cuda::mark};
  return all;
}

}  // namespace bytetape
