#pragma once
#include <cstdint>

#include "bytetape/core/images/augmentation.h"
#include "bytetape/core/philox.h"

namespace bytetape {

/// An augmentation and the position of its random numbers. Image i uses the counters offset + 2 i and offset + 2 i + 1,
/// regardless of the rest of the batch.
struct Augmenting {
  Augmentation by;
  PhiloxState state;

  static constexpr std::int64_t counters_each = 2, words_each = 4 * counters_each;
};

/// The source pixels of an augmented image, in integers, for the kernels of all devices.
class PixelMap {
 public:
  /// For image number `image` of the batch, of height x width, each below 2^30.
  constexpr PixelMap(const Augmenting& a, std::int64_t image, std::int64_t height, std::int64_t width)
      : height_(static_cast<std::int32_t>(height)),
        width_(static_cast<std::int32_t>(width)),
        reflects_(a.by.padding_mode == PaddingMode::reflect) {
    if (!a.by.changes_anything()) return;
    const PhiloxState state = started(a.state);
    const std::uint64_t counter = state.offset + Augmenting::counters_each * static_cast<std::uint64_t>(image);
    const auto moves = philox(state.seed, counter);
    const auto padding = static_cast<std::int32_t>(a.by.crop_padding);
    down_ = below(2 * padding + 1, moves[0]) - padding;
    right_ = below(2 * padding + 1, moves[1]) - padding;
    flips_ = double{unit_float(moves[2])} < a.by.flip;
    if (a.by.cutout == 0) return;
    const auto centre = philox(state.seed, counter + 1);
    const auto side = static_cast<std::int32_t>(a.by.cutout);
    cut_top_ = below(height_, centre[0]) - side / 2;
    cut_left_ = below(width_, centre[1]) - side / 2;
    cut_side_ = side;
  }

  constexpr bool cuts_row(std::int32_t h) const { return h >= cut_top_ && h - cut_top_ < cut_side_; }
  constexpr bool cuts_column(std::int32_t w) const { return w >= cut_left_ && w - cut_left_ < cut_side_; }
  /// Returns the source row of row h, or -1 for zeros.
  constexpr std::int32_t row(std::int32_t h) const { return within(h + down_, height_); }
  /// Returns the source column of column w, or -1 for zeros.
  constexpr std::int32_t column(std::int32_t w) const { return within((flips_ ? width_ - 1 - w : w) + right_, width_); }

 private:
  /// Returns a uniform number in [0, n).
  static constexpr std::int32_t below(std::int32_t n, std::uint32_t word) {
    return static_cast<std::int32_t>(std::uint64_t{word} * static_cast<std::uint32_t>(n) >> 32);
  }
  constexpr std::int32_t within(std::int32_t i, std::int32_t size) const {
    if (i >= 0 && i < size) return i;
    if (!reflects_) return -1;
    return i < 0 ? -i : 2 * (size - 1) - i;
  }

  std::int32_t height_, width_, down_ = 0, right_ = 0, cut_top_ = 0, cut_left_ = 0, cut_side_ = 0;
  bool reflects_, flips_ = false;
};

}  // namespace bytetape
