#pragma once
#include <cstdint>
#include <limits>
#include <span>

#include "bytetape/core/kernels/work.h"
#include "bytetape/core/view.h"

namespace bytetape {

// The state of a gradient scaler on the device, dense: `scale`, f32, the factor of losses; `growth_tracker`, i32; and
// `found_inf`, f32, one per optimizer. found_inf is 0 if all gradients are finite, 1 if not, and UnscaleArgs::kept if a
// pending fault prevented unscaling.

/// Multiplies every gradient by 1 / scale, and sets found_inf, a scalar. Gradients are dense and share no memory.
struct UnscaleArgs {
  static constexpr float kept = 2;
  std::span<const View> gradients;
  ConstView scale;
  View found_inf;

  /// Gradients are read and written.
  std::uint64_t moved_bytes() const { return detail::bytes_of_fields(*this) + detail::bytes_of_argument(gradients); }
};

/// The scale, and the number of steps without overflow since it changed.
struct GradScale {
  float scale;
  std::int32_t growth_tracker;
};

/// The rule that updates the scale. It decreases after an overflow, and increases after growth_interval steps without
/// one. It stays a valid scale.
struct GradScaleRule {
  double growth_factor, backoff_factor;
  std::int32_t growth_interval;

  /// Whether v is a positive normal f32 number. Its inverse, which multiplies the gradients, is then finite.
  static constexpr bool is_scale(double v) {
    return v >= std::numeric_limits<float>::min() && v <= std::numeric_limits<float>::max();
  }
  constexpr GradScale next(const GradScale& now, bool overflowed) const {
    if (!overflowed && now.growth_tracker + 1 < growth_interval) return {now.scale, now.growth_tracker + 1};
    const double moved = now.scale * (overflowed ? backoff_factor : growth_factor);
    return {is_scale(moved) ? static_cast<float>(moved) : now.scale, 0};
  }
};

/// Updates the scale after a step. The step overflowed if any found_inf is not 0. Then sets them to 0.
struct UpdateScaleArgs {
  View scale, growth_tracker, found_inf;
  GradScaleRule rule;
};

/// The kernels of torch.amp.GradScaler. While a fault is pending they write neither gradients nor the scale and its
/// count.
struct GradScaleKernels {
  void (*unscale)(const UnscaleArgs& args);
  void (*update_scale)(const UpdateScaleArgs& args);
};

}  // namespace bytetape
