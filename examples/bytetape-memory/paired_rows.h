#pragma once
#include <bytetape/core/memory/times.h>

#include <cstdint>
#include <string>
#include <vector>

#include "examples/bytetape-memory/time_rows.h"

namespace bytetape::examples {

/// The clock by which two steps are compared: the device's if both steps have device times, else the host's.
class CommonClock {
 public:
  CommonClock(const memory::StepTime& a, const memory::StepTime& b) : is_device_(a.device && b.device) {}

  bool is_device() const { return is_device_; }
  std::uint64_t of(const TimeRow& row) const { return is_device_ ? row.device_time : row.time; }
  /// The time of a step. For the device, it includes gaps.
  std::uint64_t of(const memory::StepTime& step) const { return is_device_ ? step.device->span() : step.time(); }

 private:
  bool is_device_;
};

/// The rows of one name and phase in two steps. If a step has no such row, its numbers are 0.
struct PairedRow {
  TimeRow a, b;

  /// Adds the times and the work of another row.
  void add(const PairedRow& other) {
    a.add(other.a);
    b.add(other.b);
  }
};

/// Pairs the rows of two steps. The largest absolute difference of times comes first.
std::vector<PairedRow> paired_rows(const std::vector<TimeRow>& as, const std::vector<TimeRow>& bs,
                                   const CommonClock& clock);

/// Formats b − a: "+1.20 ms", "−640 ns", or "·" if they are equal.
template <class Number, class Format>
std::string format_change(Number a, Number b, Format format) {
  if (a == b) return "·";
  return b > a ? "+" + format(b - a) : "−" + format(a - b);
}

}  // namespace bytetape::examples
