#pragma once
#include <cstdint>

namespace bytetape {

/// The pixels that a random crop sees outside an image: zeros, or the mirrored image without its outermost pixels
/// (reflect), as in torch's padding modes.
enum class PaddingMode : std::uint8_t { zeros, reflect };

/// Random changes of an image, drawn per image and applied in this order: crop, flip, cutout.
/// A target of the same size, such as a segmentation mask, gets the same crop and flip, but no cutout.
struct Augmentation {
  /// Pixels to add on each side before a crop to the image's size (torchvision's RandomCrop(size, padding)). Default:
  /// 0, no crop.
  std::int64_t crop_padding = 0;
  PaddingMode padding_mode = PaddingMode::zeros;
  /// Probability of a horizontal flip (RandomHorizontalFlip). Default: 0.
  double flip = 0;
  /// Side of a square, in pixels, that is set to 0 in all channels (DeVries and Taylor, "Improved regularization of
  /// convolutional neural networks with cutout", 2017). Its centre is any pixel, so the border may clip it. Default: 0,
  /// no cutout.
  std::int64_t cutout = 0;

  constexpr bool changes_anything() const { return moves() || cutout != 0; }
  /// Whether crop or flip move pixels.
  constexpr bool moves() const { return crop_padding != 0 || flip != 0; }
  /// Returns the same crop and flip, without cutout.
  constexpr Augmentation without_cutout() const {
    Augmentation by = *this;
    by.cutout = 0;
    return by;
  }
};

}  // namespace bytetape
