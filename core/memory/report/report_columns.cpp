#include "bytetape/core/memory/report/report_columns.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "bytetape/core/error.h"

namespace bytetape::memory {
namespace {

static_assert(std::endian::native == std::endian::little, "pages hold little-endian elements");

// Sizes and offsets of blocks are usually multiples of 512.
constexpr std::uint64_t common_divisor = 512;

template <class T>
bool fits(std::uint64_t largest) {
  return largest <= std::numeric_limits<T>::max();
}

std::string deflate(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string packed(size, '\0');
  // Level 4 takes a third of the default level's time. Its output is at most 1 % larger.
  const int status = compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                               reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), 4);
  check<Error>(status == Z_OK, "write_report: zlib failed with status ", status);
  packed.resize(size);
  return packed;
}

}  // namespace

template <class T>
void ReportColumns::append(const std::vector<std::uint64_t>& values, std::uint64_t scale) {
  const std::size_t at = bytes_.size();
  bytes_.resize(at + (values.size() * sizeof(T) + 7) / 8 * 8);
  char* out = bytes_.data() + at;
  for (const std::uint64_t value : values) {
    const T element = static_cast<T>(value / scale);
    std::memcpy(out, &element, sizeof(T));
    out += sizeof(T);
  }
}

ReportColumn ReportColumns::add(const std::vector<std::uint64_t>& values) {
  std::uint64_t largest = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  const bool divides = std::all_of(values.begin(), values.end(), [](auto v) { return v % common_divisor == 0; });
  const std::uint64_t scale = divides && !fits<std::uint16_t>(largest) ? common_divisor : 1;
  largest /= scale;
  const std::size_t at = bytes_.size();
  const char* type = "f64";
  if (fits<std::uint8_t>(largest)) {
    type = "u8";
    append<std::uint8_t>(values, scale);
  } else if (fits<std::uint16_t>(largest)) {
    type = "u16";
    append<std::uint16_t>(values, scale);
  } else if (fits<std::uint32_t>(largest)) {
    type = "u32";
    append<std::uint32_t>(values, scale);
  } else {
    append<double>(values, scale);
  }
  return {type, scale, at, values.size()};
}

std::string ReportColumns::text() const { return base64(deflate(bytes_)); }

std::string base64(std::string_view bytes) {
  constexpr const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<std::uint8_t>(bytes[i + j]) : 0);
    for (std::size_t j = 0; j < 4; ++j) text += i + j > bytes.size() ? '=' : digits[group >> (18 - 6 * j) & 63];
  }
  return text;
}

}  // namespace bytetape::memory
