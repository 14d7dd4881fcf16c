#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iosfwd>

namespace bytetape {

/// Element types, named as in safetensors. `boolean` prints as "bool".
enum class DType : std::uint8_t { f64, f32, bf16, f16, i64, i32, u8, boolean };

/// bfloat16: the upper 16 bits of a float, rounded to nearest even.
struct BFloat16 {
  std::uint16_t bits = 0;
  constexpr BFloat16() = default;
  constexpr explicit BFloat16(float v) {
    const auto u = std::bit_cast<std::uint32_t>(v);
    bits = v != v ? 0x7fc0 : static_cast<std::uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  constexpr operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

/// IEEE binary16 (half precision), rounded to nearest even.
struct Half {
  std::uint16_t bits = 0;
  constexpr Half() = default;
  constexpr explicit Half(float v) {
    const auto u = std::bit_cast<std::uint32_t>(v);
    const std::uint32_t sign = (u >> 16) & 0x8000, magnitude = u & 0x7fffffff;
    if (magnitude > 0x7f800000) {
      bits = static_cast<std::uint16_t>(sign | 0x7e00);  // NaN
    } else if (magnitude >= 0x477ff000) {
      bits = static_cast<std::uint16_t>(sign | 0x7c00);  // rounds to infinity
    } else if (magnitude < 0x38800000) {                 // subnormal: adding 0.5 makes the FPU round
      const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
      bits = static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000));
    } else {
      const std::uint32_t odd = (magnitude >> 13) & 1;
      bits = static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000 + 0xfff + odd) >> 13));
    }
  }
  constexpr operator float() const {
    const std::uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | ((magnitude & 0x3ff) << 13));
    if (magnitude >= 0x400) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000));
    const float v = static_cast<float>(magnitude) * 0x1p-24f;
    return sign ? -v : v;
  }
};

/// Returns the dtype that sums and statistics are computed in: f64 for f64, else f32.
constexpr DType accumulated(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

/// Returns the number of bytes of an element.
constexpr std::size_t size_of(DType t) {
  switch (t) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    default:
      return 1;
  }
}
/// Whether t is f64, f32, bf16 or f16.
constexpr bool is_floating(DType t) { return t <= DType::f16; }
/// Returns the name of the dtype: "f32", "bool", ...
const char* to_string(DType t);
std::ostream& operator<<(std::ostream& out, DType t);

/// The DType of a C++ element type: `dtype_of<float>` is DType::f32.
template <class T>
inline constexpr DType dtype_of = T::is_no_element_type;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bf16;
template <>
inline constexpr DType dtype_of<Half> = DType::f16;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;

}  // namespace bytetape
