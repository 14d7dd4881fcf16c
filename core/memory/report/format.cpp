#include "bytetape/core/memory/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace bytetape::memory {

namespace {

/// Formats a number with three significant digits, in the first unit in which it is below `base`, or in the last one.
std::string in_units(std::uint64_t n, double base, std::initializer_list<const char*> units) {
  auto value = static_cast<double>(n);
  auto unit = units.begin();
  if (value < base) return fmt::format("{} {}", n, *unit);
  for (; value >= base - 0.5 && unit + 1 != units.end(); ++unit) value /= base;  // 1023.5 would print as 1024
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, digits, *unit);
}

}  // namespace

std::string format_bytes(std::size_t bytes) {
  return in_units(bytes, 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"});
}

std::string format_time(std::uint64_t nanoseconds) { return in_units(nanoseconds, 1000, {"ns", "µs", "ms", "s"}); }

std::string format_exact(std::size_t bytes) {
  const std::string digits = std::to_string(bytes);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string format_bar(std::size_t part, std::size_t whole, int width) {
  constexpr const char* eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (part == 0 || whole == 0) return "";
  const double share = std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
  const int filled = std::max(1, static_cast<int>(std::lround(share * width * 8)));
  std::string bar;
  for (int i = 0; i < filled / 8; ++i) bar += "█";
  return bar.append(eighths[filled % 8]);
}

std::string format_share(std::size_t part, std::size_t whole) {
  if (part == 0 || whole == 0) return "0 %";
  const double percent = 100 * static_cast<double>(part) / static_cast<double>(whole);
  return percent < 1 ? "<1 %" : fmt::format("{:.0f} %", percent);
}

}  // namespace bytetape::memory
