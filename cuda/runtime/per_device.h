#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

namespace bytetape::cuda {

inline constexpr std::size_t most_devices = 256;  // Device::index is a byte

/// Returns what make() made for device number `index`. The first call for a device calls make(). If make() throws, the
/// next call tries again. Each type of `make`, and so each lambda, has objects of its own. They are never destroyed:
/// tensors in static storage may outlive them, and at the end of the program the driver may be gone.
template <class Make>
auto& once_per_device(int index, const Make& make) {
  struct Made {
    std::mutex making;  // not a std::once_flag, with which ThreadSanitizer waits for ever after an exception
    std::atomic<decltype(make())*> object = nullptr;
  };
  static std::array<Made, most_devices> all;
  Made& made = all[static_cast<std::size_t>(index)];
  if (auto* const object = made.object.load(std::memory_order_acquire)) return *object;
  const std::lock_guard lock(made.making);
  if (!made.object.load(std::memory_order_relaxed)) made.object.store(new auto(make()), std::memory_order_release);
  return *made.object.load(std::memory_order_relaxed);
}

}  // namespace bytetape::cuda
