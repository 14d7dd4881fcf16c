#pragma once
#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <string>
#include <system_error>

namespace bytetape::examples {

/// Validator of a finite number that is at least `least`.
/// CLI11 alone is not enough: it reads -1 as an unsigned number, and accepts NaN in any range.
template <class T>
CLI::Validator finite_from(T least, const std::string& name) {
  const auto fault = [least](const std::string& text) {
    T value{};
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool fits =
        error == std::errc() && stop == end && std::isfinite(static_cast<double>(value)) && value >= least;
    return fits ? "" : "expected a number of at least " + std::to_string(static_cast<int>(least)) + ", got " + text;
  };
  return {fault, name};
}
template <class T>
CLI::Validator finite_from_0() {
  return finite_from<T>(0, "NONNEGATIVE");
}

}  // namespace bytetape::examples
