#pragma once
#include <cstdint>
#include <limits>

namespace bytetape {

/// Whether p is a probability up to a factor.
constexpr bool is_weight(double p) { return p >= 0 && p <= std::numeric_limits<double>::max(); }

/// Returns the place i of n with cumulative[i - 1] <= u * total < cumulative[i]. Sums are rounded, so the place may
/// have a weight of 0; then it is the nearest one before that has not, or else behind. On host and device.
constexpr std::int64_t drawn_place(const double* p, const double* cumulative, std::int64_t n, double u) {
  const double target = u * cumulative[n - 1];
  std::int64_t low = 0, high = n - 1;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (cumulative[middle] > target)
      high = middle;
    else
      low = middle + 1;
  }
  while (low > 0 && p[low] == 0) --low;
  while (low < n - 1 && p[low] == 0) ++low;
  return low;
}

/// The key of a weight of 0, and the least key of others.
inline constexpr double last_key = -std::numeric_limits<double>::infinity();
inline constexpr double least_key = std::numeric_limits<double>::lowest();

}  // namespace bytetape
