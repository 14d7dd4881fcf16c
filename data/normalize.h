#pragma once
#include <array>
#include <cstddef>
#include <initializer_list>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape::data {

/// A number for each channel of an image, or one for all of them.
class PerChannel {
 public:
  static constexpr int most = 8;  ///< channels

  constexpr PerChannel(double of_all) : values_{of_all}, size_(1) {}
  /// Throws ShapeError on none, or more than `most`.
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

/// x = (v / 255 - mean) / std, for u8 images (torchvision's ToTensor and Normalize).
struct Normalize {
  PerChannel mean = 0, std = 1;

  constexpr double operator()(int v, std::int64_t channel) const { return (v / 255.0 - mean[channel]) / std[channel]; }
};

/// The mean and standard deviation of MNIST's training images, as everybody uses them.
inline constexpr Normalize mnist_normalize{0.1307, 0.3081};

/// What `by` makes of every pixel that `images` may have: element 256 c + v is that of v in channel c. Throws
/// DTypeError where images are not u8, ShapeError where they are neither (n, h, w) nor (n, c, h, w) or have other
/// channels, ValueError unless std > 0.
std::vector<double> normalized_pixels(const Tensor& images, const Normalize& by);
/// Those numbers as gather_images() and augment_images() take them: (c, 256) on that device, under the role `input`.
Tensor pixel_table(const std::vector<double>& pixels, DType dtype, Device device);
/// (n, h, w) as (n, 1, h, w).
Tensor with_channels(const Tensor& images);
/// (n, 1, h, w) as (n, h, w).
Tensor without_channels(const Tensor& images);

}  // namespace bytetape::data
