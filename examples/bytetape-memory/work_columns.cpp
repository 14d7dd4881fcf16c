#include "examples/bytetape-memory/work_columns.h"

#include <bytetape/core/memory/format.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace bytetape::examples {
namespace {

std::string format_rate(std::uint64_t amount, std::uint64_t time) {
  return time ? format_decimal(1e9 * static_cast<double>(amount) / static_cast<double>(time)) : "";
}

bool is_known(const memory::StepTime& step, const memory::OpTime& row) {
  return row.least_time && *row.least_time > 0 && step.time_of_work(row) > 0;
}

}  // namespace

const char* const ceilings_note =
    "no roofline: the device's ceilings are not known. build/release/bench/ceilings (CMake target ceilings) measures "
    "them, for the next recording or for --ceilings FILE\n";

std::uint64_t least_nanoseconds(const TimeRow& row) {
  constexpr double most = 9e18;  // rows add up
  return static_cast<std::uint64_t>(std::llround(std::clamp(row.least_time.value_or(0), 0.0, most)));
}

std::string format_decimal(double value) {
  if (!(value > 0)) return "";
  constexpr const char* prefixes[] = {"", " k", " M", " G", " T", " P", " E"};
  std::size_t prefix = 0;
  for (; value >= 999.5 && prefix + 1 < std::size(prefixes); ++prefix) value /= 1000;
  const int decimals = prefix == 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", value, decimals, prefixes[prefix]);
}

std::string work_heading(const memory::StepTime& step, bool with_roofline) {
  if (!step.is_counted) return "";
  return fmt::format(" {:>7} {:>7} {:>7} {:>7}{}", "FLOP", "bytes", "FLOP/s", "bytes/s",
                     with_roofline ? " roofline" : "");
}

std::string work_columns(const TimeRow& row, std::uint64_t time, const memory::StepTime& step, bool with_roofline) {
  if (!step.is_counted) return "";
  std::string share;
  if (with_roofline)
    share = row.least_time && *row.least_time > 0 && time > 0 ? memory::format_share(least_nanoseconds(row), time) : "";
  return fmt::format(" {:>7} {:>7} {:>7} {:>7}{}", format_decimal(static_cast<double>(row.flop)),
                     format_decimal(static_cast<double>(row.bytes)), format_rate(row.flop, time),
                     format_rate(row.bytes, time), with_roofline ? fmt::format(" {:>8}", share) : "");
}

bool has_roofline(const memory::StepTime& step) {
  return step.is_counted &&
         std::any_of(step.rows.begin(), step.rows.end(), [&](const memory::OpTime& r) { return is_known(step, r); });
}

std::string work_notes(const memory::StepTime& step) {
  if (!step.is_counted) return "";
  if (step.has_gpu_work && !step.device)
    return "rates need device times: record with RecordingOptions::device_times_every, or --device-times of the "
           "examples\n";
  const bool lacks = std::any_of(step.rows.begin(), step.rows.end(), [](const auto& r) { return !r.least_time; });
  return lacks ? ceilings_note : "";
}

}  // namespace bytetape::examples
