#include "bytetape/nn/step_cost.h"

#include <algorithm>

namespace bytetape::nn {
namespace {

/// The rates that a device reaches in large kernels.
struct Rates {
  double flop_per_s[memory::precision_count];  // f64, f32, tf32, bf16, f16
  double bytes_per_s;
  double s_per_launch;
};
constexpr Rates h100{{5e13, 4e13, 3e14, 6e14, 6e14}, 2.5e12, 2e-6};
constexpr Rates two_cores_of_a_server{{5e10, 1e11, 1e11, 1e11, 1e11}, 1.5e10, 1e-6};

}  // namespace

double step_cost(const std::vector<memory::WorkCount>& work, DeviceType type,
                 const std::function<bool(const memory::WorkCount&)>& counts) {
  const Rates& rates = type == DeviceType::cuda ? h100 : two_cores_of_a_server;
  double seconds = 0;
  for (const memory::WorkCount& row : work) {
    if (counts && !counts(row)) continue;
    const double arithmetic = static_cast<double>(row.flop) / rates.flop_per_s[static_cast<std::size_t>(row.precision)];
    const double movement = static_cast<double>(row.bytes) / rates.bytes_per_s;
    seconds += std::max(arithmetic, movement) + rates.s_per_launch * row.launches;
  }
  return seconds;
}

}  // namespace bytetape::nn
