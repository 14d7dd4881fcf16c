#pragma once
#include <cstdint>

#include "bytetape/core/view.h"

namespace bytetape {

/// The pixel of a resized image: the nearest input pixel, or the four around its position, weighted by distance.
enum class InterpolationMode : std::uint8_t { nearest, bilinear };
constexpr const char* name_of(InterpolationMode m) { return m == InterpolationMode::nearest ? "nearest" : "bilinear"; }

/// The mapping from output positions to input positions.
struct InterpolateParams {
  InterpolationMode mode = InterpolationMode::nearest;
  bool align_corners = false;  // bilinear: align the centres of the corner pixels, not their corners
  double steps[2] = {1, 1};    // input pixels per output pixel: vertical, horizontal
};

/// x (n, c, h, w), y (n, c, h', w').
struct InterpolateKernels {
  void (*interpolate)(const ConstView& x, const InterpolateParams& p, const View& y);
  void (*interpolate_backward)(const ConstView& gy, const InterpolateParams& p, const View& gx);
};

}  // namespace bytetape
