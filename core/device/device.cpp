#include "bytetape/core/device/device.h"

#include <charconv>
#include <ostream>
#include <string_view>

#include "bytetape/core/error.h"

namespace bytetape {

std::string to_string(Device d) {
  std::string name = d.type == DeviceType::cpu ? "cpu" : "cuda";
  if (d.index) name.append(":").append(std::to_string(d.index));
  if (!d.is_meta) return name;
  return d == Device::meta() ? "meta" : "meta:" + name;
}
std::ostream& operator<<(std::ostream& out, Device d) { return out << to_string(d); }

Device Device::parse(const std::string& text) {
  std::string_view rest = text;
  Device d;
  if (rest == "meta") return meta();
  if (rest.starts_with("meta:")) {
    d.is_meta = true;
    rest.remove_prefix(5);
  }
  if (rest == "cpu") return d;
  if (rest.starts_with("cuda")) {
    d.type = DeviceType::cuda;
    rest.remove_prefix(4);
    if (rest.empty()) return d;
    if (rest.front() == ':') {
      const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), d.index);
      if (error == std::errc() && end == rest.data() + rest.size()) return d;
    }
  }
  fail<DeviceError>("unknown device '", text, "': expected cpu, cuda, cuda:N, meta or meta:DEVICE");
}

}  // namespace bytetape
