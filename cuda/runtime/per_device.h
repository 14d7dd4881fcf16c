#pragma once
#include <array>
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
    std::once_flag once;
    decltype(make())* object = nullptr;
  };
  static std::array<Made, most_devices> all;
  Made& made = all[static_cast<std::size_t>(index)];
  std::call_once(made.once, [&] { made.object = new auto(make()); });
  return *made.object;
}

}  // namespace bytetape::cuda
