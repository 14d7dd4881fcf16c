#pragma once
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <map>
#include <string>
#include <system_error>

namespace bytetape::examples {

/// Validator of an option in bytes: converts "512MiB" and "1.5 GB" to whole bytes, rounded down.
/// A number without a unit is not changed. CLI11's AsSizeValue supports whole numbers only.
inline CLI::Validator as_bytes() {
  const auto scale = [](std::string& text) -> std::string {
    static const std::map<std::string, double> units{
        {"b", 1},        {"k", 1e3},     {"kb", 1e3},     {"m", 1e6},     {"mb", 1e6},     {"g", 1e9},
        {"gb", 1e9},     {"t", 1e12},    {"tb", 1e12},    {"ki", 0x1p10}, {"kib", 0x1p10}, {"mi", 0x1p20},
        {"mib", 0x1p20}, {"gi", 0x1p30}, {"gib", 0x1p30}, {"ti", 0x1p40}, {"tib", 0x1p40}};
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
    std::string unit(stop, end);
    unit = CLI::detail::to_lower(CLI::detail::trim(unit));
    if (error == std::errc() && unit.empty() && value == std::floor(value)) return "";
    const auto factor = units.find(unit);
    if (error != std::errc() || factor == units.end()) return "expected a size such as 512MiB or 1.5GB, got " + text;
    const double bytes = std::floor(value * factor->second);
    if (bytes < 1 && value > 0) return "expected at least one byte, got " + text;
    if (!(bytes >= 0 && bytes < 0x1p64)) return "expected 0 to 2^64 - 1 bytes, got " + text;
    text = fmt::format("{:.0f}", bytes);
    return "";
  };
  return {scale, "SIZE [b, kb(=1000b), kib(=1024b), ...]"};
}

}  // namespace bytetape::examples
