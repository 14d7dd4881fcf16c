#include "examples/autoencoder/reconstructions.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "examples/autoencoder/models.h"

namespace bytetape::examples {
namespace {

constexpr int digits = 10, pairs = 3;
constexpr int scale = 3, image_size = 28 * scale, gap = 12;
constexpr int left = 150, top = 96, margin = 32, pair_height = 2 * image_size + 32;
constexpr Color dark{32, 33, 36}, grey{95, 99, 104};

/// An image and its place in the picture: the column of its digit and the row of its pair.
struct Place {
  std::int64_t image;
  int digit, pair;
};

std::vector<Place> first_of_each(const data::ResidentDataset& testing) {
  std::array<int, digits> seen{};
  std::vector<Place> found;
  std::int64_t image = 0;
  for (const auto& [x, y] : data::ResidentLoader(testing, {.batch_size = 100}))
    for (const std::int64_t label : y.to_vector<std::int64_t>()) {
      int& pair = seen[static_cast<std::size_t>(label)];
      if (pair < pairs) found.push_back({image, static_cast<int>(label), pair++});
      ++image;
    }
  return found;
}

}  // namespace

Canvas draw_reconstructions(nn::Module& model, const data::ResidentDataset& testing) {
  const NoGrad no_grad;
  model.eval();
  Canvas canvas(left + digits * (image_size + gap) - gap + margin, top + pairs * pair_height);
  canvas.draw_text("Digits and their reconstructions", margin, 44, 26, dark);
  canvas.draw_text(
      fmt::format("Test images of {} pixels. Below each, its reconstruction from {} numbers.", 28 * 28, code_size),
      margin, 70, 16, grey);
  for (int pair = 0; pair < pairs; ++pair) {
    const int middle = top + pair * pair_height + image_size / 2 + 5;
    canvas.draw_text("original", left - 16, middle, 16, dark, Align::right);
    canvas.draw_text("reconstruction", left - 16, middle + image_size, 16, grey, Align::right);
  }
  for (const Place& place : first_of_each(testing)) {
    const Tensor original = testing.get(from_vector(std::vector{place.image}, {1}, testing.device())).x;
    const int x = left + place.digit * (image_size + gap), y = top + place.pair * pair_height;
    canvas.draw_image(select(pixels_of(original, {}), 0, 0), x, y, scale);
    canvas.draw_image(select(pixels_of(model(original), {}), 0, 0), x, y + image_size, scale);
  }
  return canvas;
}

}  // namespace bytetape::examples
