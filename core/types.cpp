#include <charconv>
#include <cmath>
#include <ostream>
#include <string_view>

#include "bytetape/core/device.h"
#include "bytetape/core/dtype.h"
#include "bytetape/core/error.h"
#include "bytetape/core/scalar.h"

namespace bytetape {

const char* to_string(DType t) {
  constexpr const char* names[] = {"f64", "f32", "bf16", "f16", "i64", "i32", "u8", "bool"};
  return names[static_cast<int>(t)];
}
std::ostream& operator<<(std::ostream& out, DType t) { return out << to_string(t); }

std::ostream& operator<<(std::ostream& out, const Scalar& s) {
  return s.is_integral() ? out << s.to<std::int64_t>() : out << s.to<double>();
}

bool fits(const Scalar& s, DType t) {
  if (is_floating(t)) return true;
  if (!s.is_integral()) {
    const auto d = s.to<double>();
    if (d != std::trunc(d) || !(std::abs(d) < 0x1p63)) return false;
  }
  const auto v = s.to<std::int64_t>();
  switch (t) {
    case DType::i32:
      return v == static_cast<std::int32_t>(v);
    case DType::u8:
      return v == static_cast<std::uint8_t>(v);
    case DType::boolean:
      return v == 0 || v == 1;
    default:
      return true;
  }
}

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
