#include "examples/cifar10/errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace bytetape::examples {
namespace {

struct Mistake {
  std::int64_t image, label, said;
  float confidence;
};

/// Returns all mistakes, the most confident first.
std::vector<Mistake> find_mistakes(nn::Module& model, const data::ResidentDataset& testing) {
  const NoGrad no_grad;
  model.eval();
  std::vector<Mistake> found;
  std::int64_t image = 0;
  for (const auto& [x, y] : data::ResidentLoader(testing, {.batch_size = 100})) {
    const Tensor parts = softmax(model(x), 1);
    const auto said = argmax(parts, 1).to_vector<std::int64_t>(), labels = y.to_vector<std::int64_t>();
    const auto confidence = max(parts, 1).to_vector<float>();
    for (std::size_t i = 0; i < said.size(); ++i, ++image)
      if (said[i] != labels[i]) found.push_back({image, labels[i], said[i], confidence[i]});
  }
  std::ranges::stable_sort(found, std::ranges::greater(), &Mistake::confidence);
  return found;
}

constexpr int columns = 8, rows = 4;
constexpr int scale = 3, image_size = 32 * scale, gap = 24, cell_width = image_size + gap,
              cell_height = image_size + 60;
constexpr int margin = 32, header = 96;
constexpr Color dark{32, 33, 36}, grey{95, 99, 104}, red{179, 38, 30};

const char* name_of(std::int64_t label) { return data::cifar10_classes[static_cast<std::size_t>(label)]; }

void draw_mistake(Canvas& canvas, const Mistake& mistake, const Tensor& pixels, int x, int y) {
  canvas.draw_image(pixels, x, y, scale);
  const int middle = x + image_size / 2;
  const std::string said = fmt::format("{} {:.0f} %", name_of(mistake.said), 100 * mistake.confidence);
  canvas.draw_text(said, middle, y + image_size + 18, 15, red, Align::center);
  canvas.draw_text(name_of(mistake.label), middle, y + image_size + 36, 15, dark, Align::center);
}

}  // namespace

Canvas draw_errors(nn::Module& model, const data::ResidentDataset& testing) {
  const std::vector<Mistake> mistakes = find_mistakes(model, testing);
  const auto shown = std::min(mistakes.size(), std::size_t{columns * rows});
  Canvas canvas(2 * margin + columns * cell_width - gap, header + rows * cell_height + margin / 2);
  canvas.draw_text(fmt::format("{} of {} test images are classified wrong", mistakes.size(), testing.size()), margin,
                   44, 26, dark);
  canvas.draw_text("The most confident mistakes. Red: the network's answer and its confidence. Black: the true class.",
                   margin, 70, 16, grey);
  for (std::size_t i = 0; i < shown; ++i) {
    const Tensor index = from_vector(std::vector{mistakes[i].image}, {1}, testing.device());
    const Tensor pixels = select(pixels_of(testing.get(index).x, data::cifar10_normalize), 0, 0);
    const int place = static_cast<int>(i);
    draw_mistake(canvas, mistakes[i], pixels, margin + place % columns * cell_width,
                 header + place / columns * cell_height);
  }
  return canvas;
}

}  // namespace bytetape::examples
