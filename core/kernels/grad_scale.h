#pragma once
#include <cstdint>
#include <limits>
#include <span>

#include "bytetape/core/view.h"

namespace bytetape {

// What a gradient scaler keeps on the device, dense: `scale`, f32, what losses are multiplied by; `growth_tracker`,
// i32; `found_inf`, f32, by optimizer: 0 where all gradients are finite, 1 where one is not, UnscaleArgs::kept where
// none was multiplied, as a fault was pending.

/// Multiplies every gradient by 1 / scale, and sets found_inf, a scalar, as above. The gradients are dense, and none
/// shares memory with another.
struct UnscaleArgs {
  static constexpr float kept = 2;
  std::span<const View> gradients;
  ConstView scale;
  View found_inf;
};

/// The scale, and how many steps without an overflow came since it changed.
struct GradScale {
  float scale;
  std::int32_t growth_tracker;
};

/// How it moves: back where a step overflowed; else, after growth_interval steps that did not, up; and not at all out
/// of what can be a scale.
struct GradScaleRule {
  double growth_factor, backoff_factor;
  std::int32_t growth_interval;

  /// A positive normal number of f32: gradients are multiplied by its inverse, which is finite.
  static constexpr bool is_scale(double v) {
    return v >= std::numeric_limits<float>::min() && v <= std::numeric_limits<float>::max();
  }
  constexpr GradScale next(const GradScale& now, bool overflowed) const {
    if (!overflowed && now.growth_tracker + 1 < growth_interval) return {now.scale, now.growth_tracker + 1};
    const double moved = now.scale * (overflowed ? backoff_factor : growth_factor);
    return {is_scale(moved) ? static_cast<float>(moved) : now.scale, 0};
  }
};

/// Moves the scale on by a step, which overflowed where any found_inf is not 0; then all of those are 0.
struct UpdateScaleArgs {
  View scale, growth_tracker, found_inf;
  GradScaleRule rule;
};

/// torch.amp.GradScaler's kernels. While a fault is pending, steps are not taken: neither gradients nor
/// the scale and its count are written then.
struct GradScaleKernels {
  void (*unscale)(const UnscaleArgs& args);
  void (*update_scale)(const UpdateScaleArgs& args);
};

}  // namespace bytetape
