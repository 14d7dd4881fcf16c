#pragma once
#include <cstdint>

namespace bytetape {

/// What a random crop finds outside an image: zeros, or the image mirrored at its outermost pixels (reflect, without
/// repeating them), as in torch's padding modes.
enum class PaddingMode : std::uint8_t { zeros, reflect };

/// Random changes of an image, drawn for each anew and made in this order: crop, flip, cutout. A target that is an
/// image of the same size, such as a segmentation mask, gets the same crop and flip, and no cutout.
struct Augmentation {
  /// Pixels added on each side before a crop of the image's own size (torchvision's RandomCrop(size, padding)); 0:
  /// none.
  std::int64_t crop_padding = 0;
  PaddingMode padding_mode = PaddingMode::zeros;
  /// Probability of left and right changing places (RandomHorizontalFlip).
  double flip = 0;
  /// Side of a square that becomes 0, in all channels; its centre is any pixel, and what hangs over the border is left
  /// out (DeVries and Taylor, "Improved regularization of convolutional neural networks with cutout", 2017); 0: none.
  std::int64_t cutout = 0;

  constexpr bool changes_anything() const { return moves() || cutout != 0; }
  /// True if pixels change their places: crop or flip.
  constexpr bool moves() const { return crop_padding != 0 || flip != 0; }
  /// The same crop and flip, without cutout.
  constexpr Augmentation without_cutout() const {
    Augmentation by = *this;
    by.cutout = 0;
    return by;
  }
};

}  // namespace bytetape
