#pragma once
#include <cstdint>

#include "bytetape/core/view.h"

namespace bytetape {

/// What a pixel of a resized image is made of: the nearest pixel, or the four around its place, by distance.
enum class InterpolationMode : std::uint8_t { nearest, bilinear };

/// How places in the output become places in the input.
struct InterpolateParams {
  InterpolationMode mode = InterpolationMode::nearest;
  bool align_corners = false;  // of bilinear: the centres of the corner pixels lie on each other, else the corners
  double steps[2] = {1, 1};    // in the input, for one in the output: down and across
};

/// x (n, c, h, w), y (n, c, h', w').
struct InterpolateKernels {
  void (*interpolate)(const ConstView& x, const InterpolateParams& p, const View& y);
  void (*interpolate_backward)(const ConstView& gy, const InterpolateParams& p, const View& gx);
};

}  // namespace bytetape
