#pragma once
#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <string>
#include <system_error>

namespace bytetape::examples {

/// Of an option: CLI11 reads -1 as an unsigned number, and takes NaN to be in any range.
template <class T>
CLI::Validator finite_from_0() {
  const auto fault = [](const std::string& text) {
    T value{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool fits = error == std::errc() && stop == end && std::isfinite(static_cast<double>(value)) && value >= 0;
    return fits ? "" : "Number less than 0, or none: " + text;
  };
  return {fault, "NONNEGATIVE"};
}

}  // namespace bytetape::examples
