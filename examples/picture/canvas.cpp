#include "examples/picture/canvas.h"

#include <cmath>
#include <utility>

namespace bytetape::examples {

static_assert(sizeof(Color) == 3);  // image libraries expect three bytes a pixel

Canvas::Canvas(int width, int height)
    : width_(width),
      height_(height),
      pixels_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height), Color{255, 255, 255}) {}

void Canvas::draw_image(const Tensor& pixels, int x, int y, int scale) {
  const Tensor image = contiguous(to(pixels, Device::cpu()));
  const auto h = static_cast<int>(image.size(1)), w = static_cast<int>(image.size(2));
  const std::size_t plane = image.size(0) == 1 ? 0 : static_cast<std::size_t>(h * w);
  const auto* first = std::as_const(image).data<std::uint8_t>();
  for (int row = 0; row < h * scale; ++row)
    for (int column = 0; column < w * scale; ++column) {
      const auto* at = first + row / scale * w + column / scale;
      blend(x + column, y + row, {at[0], at[plane], at[2 * plane]}, 1);
    }
}

void Canvas::blend(int x, int y, Color color, double part) {
  if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
  Color& pixel = pixels_[static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x)];
  const auto mixed = [&](std::uint8_t under, std::uint8_t over) {
    return static_cast<std::uint8_t>(std::lround(under + part * (over - under)));
  };
  pixel = {mixed(pixel.red, color.red), mixed(pixel.green, color.green), mixed(pixel.blue, color.blue)};
}

Tensor pixels_of(const Tensor& images, const data::Normalize& normalize) {
  const auto by_channel = [&](const data::PerChannel& values) {
    std::vector<float> list;
    for (int channel = 0; channel < values.size(); ++channel) list.push_back(static_cast<float>(values[channel]));
    return from_vector(list, {values.size(), 1, 1}, images.device());
  };
  const Tensor parts = images * by_channel(normalize.std) + by_channel(normalize.mean);
  return to(clamp(parts, 0, 1) * 255 + 0.5, DType::u8);
}

}  // namespace bytetape::examples
