#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>

#include "bytetape/core/error.h"

namespace bytetape {

/// The type of a device. The CPU always exists; others need a backend (register_backend).
enum class DeviceType : std::uint8_t { cpu, cuda };

/// The device of a tensor. A meta device holds no data: kernels do nothing, and memory is counted exactly as on the
/// device that it stands for.
struct Device {
  DeviceType type = DeviceType::cpu;
  std::uint8_t index = 0;  ///< number among devices of this type
  bool is_meta = false;

  static constexpr Device cpu();
  /// Throws DeviceError unless 0 <= index <= 255.
  static constexpr Device cuda(int index = 0);
  /// The meta device of `stands_for`, or of the CPU.
  static constexpr Device meta(Device stands_for);
  static constexpr Device meta();
  /// Parses "cpu", "cuda", "cuda:1", "meta" (of the CPU) or "meta:cuda:1".
  /// Throws DeviceError on other text.
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

/// Returns the text that Device::parse() reads: "cpu", "cuda:1", "meta", "meta:cuda:1", ...
std::string to_string(Device d);
std::ostream& operator<<(std::ostream& out, Device d);

}  // namespace bytetape
