#include "bytetape/core/device/backend.h"

#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "bytetape/core/cpu/table.h"
#include "bytetape/core/device/capture.h"
#include "bytetape/core/error.h"
#include "bytetape/core/memory/allocator/meta_allocators.h"

namespace bytetape {
namespace {

// Allocators are never destroyed: tensors in static storage may outlive them otherwise.
memory::Allocator& host_allocator(int index) {
  check<DeviceError>(index == 0, "there is one cpu, not a cpu:", index);
  static auto* a =
      new memory::Allocator(Device::cpu(), std::make_unique<memory::HostUpstream>(), memory::mode_from_environment());
  return *a;
}

memory::Allocator& meta_host_allocator(int index) {
  check<DeviceError>(index == 0, "there is one cpu, not a cpu:", index);
  static auto* a = memory::make_meta_allocator(Device::meta(), memory::mode_from_environment()).release();
  return *a;
}

Backend of_the_build(DeviceType type) {
  return type == DeviceType::cpu ? Backend{&cpu::kernels(), host_allocator, meta_host_allocator}
                                 : detail::cuda_backend();
}

std::array<Backend, 2>& backends() {
  static std::array<Backend, 2> all{of_the_build(DeviceType::cpu), of_the_build(DeviceType::cuda)};
  return all;
}

}  // namespace

void register_backend(DeviceType type, const Backend& b) {
  backends()[static_cast<std::size_t>(type)] = b.kernels ? b : of_the_build(type);
}

const Backend& backend(Device device) { return backends()[static_cast<std::size_t>(device.type)]; }

void synchronize(Device device) {
  const auto wait = backend(device).synchronize;
  if (!wait) return;
  detail::refuse_in_capture("waits for the device");
  memory::allocator(device).note_traffic(memory::EventKind::wait, 0);
  if (!device.is_meta) wait(device.index);
  if (memory::PinnedMemory* pinned = memory::pinned_for(device)) pinned->settle();
}

memory::Allocator& memory::allocator(Device device) {
  if (device.is_meta && ambient.meta_allocators) [[unlikely]]
    return ambient.meta_allocators->allocator(device);
  const Backend& b = backend(device);
  return (device.is_meta ? b.meta_allocator : b.allocator)(device.index);
}

memory::PinnedMemory* memory::pinned_for(Device device) {
  if (device.is_meta && ambient.meta_allocators) [[unlikely]]
    return ambient.meta_allocators->pinned(device);
  const Backend& b = backend(device);
  const auto pinned = device.is_meta ? b.meta_pinned : b.pinned;
  return pinned ? &pinned(device.index) : nullptr;
}

memory::Allocator::Mode memory::mode_from_environment() {
  const char* no_cache = std::getenv("BYTETAPE_NO_CACHE");
  const bool is_set = no_cache && *no_cache && std::string_view(no_cache) != "0";
  return is_set ? Allocator::Mode::direct : Allocator::Mode::caching;
}

}  // namespace bytetape
