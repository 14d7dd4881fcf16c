#pragma once
#include <array>
#include <cstddef>
#include <initializer_list>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape::data {

/// One number for each channel of an image, or one for all channels.
class PerChannel {
 public:
  static constexpr int most = 8;  ///< maximum number of channels

  constexpr PerChannel(double of_all) : values_{of_all}, size_(1) {}
  /// Throws ShapeError if there are no values, or more than `most`.
  constexpr PerChannel(std::initializer_list<double> values) : size_(static_cast<int>(values.size())) {
    if (size_ < 1 || size_ > most) fail<ShapeError>("expected 1 to ", most, " channels, got ", size_);
    for (std::size_t i = 0; i < values.size(); ++i) values_[i] = values.begin()[i];
  }
  constexpr bool fits(std::int64_t channels) const { return size_ == 1 || size_ == channels; }
  constexpr int size() const { return size_; }
  constexpr double operator[](std::int64_t channel) const {
    return values_[size_ == 1 ? 0 : static_cast<std::size_t>(channel)];
  }

 private:
  std::array<double, most> values_{};
  int size_;
};

/// Normalisation of u8 images: x = (v / 255 - mean) / std (torchvision's ToTensor and Normalize).
struct Normalize {
  PerChannel mean = 0, std = 1;

  constexpr double operator()(int v, std::int64_t channel) const { return (v / 255.0 - mean[channel]) / std[channel]; }
};

/// The customary mean and standard deviation of MNIST's training images.
inline constexpr Normalize mnist_normalize{0.1307, 0.3081};

/// Returns the normalised values of all pixel values: element 256 c + v is that of value v in channel c.
/// Throws DTypeError if `images` is not u8.
/// Throws ShapeError if `images` is neither (n, h, w) nor (n, c, h, w), or the number of channels is not that of `by`.
/// Throws ValueError unless std > 0.
std::vector<double> normalized_pixels(const Tensor& images, const Normalize& by);
/// Returns the values as a tensor (c, 256) for gather_images() and augment_images(), with the role `input`.
Tensor pixel_table(const std::vector<double>& pixels, DType dtype, Device device);
/// Returns images (n, h, w) as (n, 1, h, w), sharing memory. Images (n, c, h, w) are returned as they are.
Tensor with_channels(const Tensor& images);
/// Returns images (n, 1, h, w) as (n, h, w), sharing memory.
Tensor without_channels(const Tensor& images);

}  // namespace bytetape::data
