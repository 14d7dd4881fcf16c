#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>

#include "bytetape/core/error.h"

namespace bytetape {

/// The CPU is always there; others come with a backend (register_backend).
enum class DeviceType : std::uint8_t { cpu, cuda };

/// Where a tensor lives. A meta device holds no data: kernels do nothing there and memory is only accounted for,
/// exactly as the device that it stands in for would account for it.
struct Device {
  DeviceType type = DeviceType::cpu;
  std::uint8_t index = 0;  ///< number among the devices of its type
  bool is_meta = false;

  static constexpr Device cpu();
  /// Throws DeviceError unless 0 <= index <= 255.
  static constexpr Device cuda(int index = 0);
  /// The data-less twin of `stands_for`, or of the CPU.
  static constexpr Device meta(Device stands_for);
  static constexpr Device meta();
  /// "cpu", "cuda", "cuda:1", "meta" (of the CPU), "meta:cuda:1". Throws DeviceError on anything else.
  static Device parse(const std::string& text);

  friend constexpr bool operator==(Device, Device) = default;
};
constexpr Device Device::cpu() { return {}; }
constexpr Device Device::cuda(int index) {
  if (index < 0 || index > 255) fail<DeviceError>("a device's number is 0 to 255, not ", index);
  return {DeviceType::cuda, static_cast<std::uint8_t>(index), false};
}
constexpr Device Device::meta(Device stands_for) { return {stands_for.type, stands_for.index, true}; }
constexpr Device Device::meta() { return meta(cpu()); }

/// "cpu", "cuda:1", "meta", "meta:cuda:1", ... as Device::parse() reads them.
std::string to_string(Device d);
std::ostream& operator<<(std::ostream& out, Device d);

}  // namespace bytetape
