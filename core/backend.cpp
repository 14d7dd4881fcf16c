#include "bytetape/core/backend.h"

#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "bytetape/core/cpu/table.h"
#include "bytetape/core/error.h"

namespace bytetape {
namespace {

memory::Allocator::Mode mode_from_environment() {
  const char* no_cache = std::getenv("BYTETAPE_NO_CACHE");
  const bool is_set = no_cache && *no_cache && std::string_view(no_cache) != "0";
  return is_set ? memory::Allocator::Mode::direct : memory::Allocator::Mode::caching;
}

// Allocators are never destroyed: tensors in static storage may outlive them otherwise.
memory::Allocator& host_allocator(int index) {
  check<DeviceError>(index == 0, "there is one cpu, not a cpu:", index);
  static auto* a =
      new memory::Allocator(Device::cpu(), std::make_unique<memory::HostUpstream>(), mode_from_environment());
  return *a;
}

memory::Allocator& meta_host_allocator(int index) {
  check<DeviceError>(index == 0, "there is one cpu, not a cpu:", index);
  static auto* a =
      new memory::Allocator(Device::meta(), std::make_unique<memory::SimulatedUpstream>(), mode_from_environment());
  return *a;
}

std::array<Backend, 2>& backends() {
  static std::array<Backend, 2> all{Backend{&cpu::kernels(), host_allocator, meta_host_allocator}, Backend{}};
  return all;
}

}  // namespace

void register_backend(DeviceType type, const Backend& b) { backends()[static_cast<std::size_t>(type)] = b; }

const Backend& backend(Device device) {
  const Backend& b = backends()[static_cast<std::size_t>(device.type)];
  if (!b.kernels) fail<DeviceError>("no backend is registered for ", device, "; this build has cpu and meta");
  return b;
}

memory::Allocator& memory::allocator(Device device) {
  const Backend& b = backend(device);
  return (device.is_meta ? b.meta_allocator : b.allocator)(device.index);
}

}  // namespace bytetape
