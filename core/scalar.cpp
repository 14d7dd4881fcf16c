#include "bytetape/core/scalar.h"

#include <cmath>
#include <ostream>

namespace bytetape {

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

}  // namespace bytetape
