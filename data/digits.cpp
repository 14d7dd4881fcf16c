#include "bytetape/data/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/core/philox.h"
#include "bytetape/data/glyphs.h"

// Uses only + - * / and sqrt, whose results IEEE 754 defines exactly, so that images are the same on every machine.
// data/CMakeLists.txt prevents the compiler from fusing these operations.
namespace bytetape::data {
namespace {

constexpr int side = 28;
using Canvas = std::array<float, std::size_t{side} * side>;

/// The random words of one image. Each image has 2^16 counters of the seed's stream.
class Dice {
 public:
  Dice(std::uint64_t seed, std::int64_t image) : seed_(seed), at_(static_cast<std::uint64_t>(image) << 16) {}
  std::uint32_t word() {
    if (left_ == 0) {
      words_ = philox(seed_, at_++);
      left_ = words_.size();
    }
    return words_[--left_];
  }
  float uniform(float low, float high) { return low + (high - low) * unit_float(word()); }
  int below(int n) { return static_cast<int>(std::uint64_t{word()} * static_cast<std::uint64_t>(n) >> 32); }

 private:
  std::uint64_t seed_, at_;
  std::array<std::uint32_t, 4> words_{};
  std::size_t left_ = 0;
};

/// A map from a glyph's unit box to pixels.
struct Placement {
  float xx, xy, yx, yy, x0, y0;
  Point operator()(Point p) const {
    const float x = p.x - 0.5f, y = p.y - 0.5f;
    return {xx * x + xy * y + x0, yx * x + yy * y + y0};
  }
};

Placement random_placement(Dice& dice) {
  const float width = dice.uniform(8, 17), height = dice.uniform(14, 21);
  const float slant = dice.uniform(-0.25f, 0.55f), turn = dice.uniform(-0.3f, 0.3f);
  const float cosine = 1 - turn * turn / 2, sine = turn;  // approximations for a small angle
  constexpr float middle = (side - 1) / 2.0f;
  return {cosine * width,
          -cosine * slant * height - sine * height,
          sine * width,
          cosine * height - sine * slant * height,
          middle + dice.uniform(-3, 3),
          middle + dice.uniform(-3, 3)};
}

float square(float v) { return v * v; }

/// Lowers the squared distances of pixels to the pen's line, for pixels within `reach` of the segment from a to b.
void draw_segment(Point a, Point b, float reach, Canvas& distance) {
  const auto first = [&](float v) { return std::clamp(static_cast<int>(v - reach), 0, side - 1); };
  const auto last = [&](float v) { return std::clamp(static_cast<int>(v + reach) + 1, 0, side - 1); };
  const int x_end = last(std::max(a.x, b.x)), y_end = last(std::max(a.y, b.y));
  const float dx = b.x - a.x, dy = b.y - a.y, length2 = std::max(dx * dx + dy * dy, 1e-6f);
  for (int y = first(std::min(a.y, b.y)); y <= y_end; ++y)
    for (int x = first(std::min(a.x, b.x)); x <= x_end; ++x) {
      const float px = static_cast<float>(x) - a.x, py = static_cast<float>(y) - a.y;
      const float t = std::clamp((px * dx + py * dy) / length2, 0.0f, 1.0f);
      float& d = distance[static_cast<std::size_t>(y * side + x)];
      d = std::min(d, square(px - t * dx) + square(py - t * dy));
    }
}

/// Returns the point at t in [0, 1] of the Catmull-Rom spline from b to c.
Point on_spline(Point a, Point b, Point c, Point d, float t) {
  const auto at = [t](float a, float b, float c, float d) {
    return b + 0.5f * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
  };
  return {at(a.x, b.x, c.x, d.x), at(a.y, b.y, c.y, d.y)};
}

void draw_stroke(const std::vector<Point>& points, const std::vector<int>& stroke, float reach, Canvas& distance) {
  const int n = static_cast<int>(stroke.size());
  const bool closed = stroke.front() == stroke.back();
  const auto point = [&](int i) {
    if (closed && i < 0) i = n - 2;
    if (closed && i >= n) i = 1;
    return points[static_cast<std::size_t>(stroke[static_cast<std::size_t>(std::clamp(i, 0, n - 1))])];
  };
  const int pieces = n == 2 ? 1 : 5;
  for (int i = 0; i + 1 < n; ++i) {
    Point from = point(i);
    for (int k = 1; k <= pieces; ++k) {
      const Point to = on_spline(point(i - 1), point(i), point(i + 1), point(i + 2),
                                 static_cast<float>(k) / static_cast<float>(pieces));
      draw_segment(from, to, reach, distance);
      from = to;
    }
  }
}

void draw_digit(int digit, Dice& dice, std::uint8_t* image) {
  const auto ways = glyphs(digit);
  const Glyph& glyph = ways[static_cast<std::size_t>(dice.below(static_cast<int>(ways.size())))];
  const Placement place = random_placement(dice);
  const float wobble = dice.uniform(0, 0.13f);
  std::vector<Point> points;
  for (Point p : glyph.points)
    points.push_back(place({p.x + dice.uniform(-wobble, wobble), p.y + dice.uniform(-wobble, wobble)}));

  const float half = dice.uniform(0.5f, 1.5f), blur = dice.uniform(0.9f, 1.4f), reach = half + blur;
  Canvas distance;
  distance.fill(square(reach));
  for (const auto& stroke : glyph.strokes) draw_stroke(points, stroke, reach, distance);

  const float ink = dice.uniform(170, 255), noise = dice.uniform(0, 40);
  for (std::size_t i = 0; i < distance.size(); ++i) {
    const float cover = std::clamp((reach - std::sqrt(distance[i])) / blur, 0.0f, 1.0f);
    const float value = ink * cover + dice.uniform(-noise, noise);
    image[i] = static_cast<std::uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f));
  }
}

}  // namespace

Mnist generated_digits(std::int64_t n, std::uint64_t seed) {
  const memory::Op<"generated_digits"> op;
  check<ValueError>(n >= 0, "expected n >= 0, got ", n);
  Mnist drawn{empty({n, side, side}, DType::u8, Device::cpu(), memory::Role::input),
              empty({n}, DType::i64, Device::cpu(), memory::Role::input), "generated digits"};
  auto* image = drawn.images.data<std::uint8_t>();
  auto* label = drawn.labels.data<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i) {
    Dice dice(seed, i);
    label[i] = dice.below(10);
    draw_digit(static_cast<int>(label[i]), dice, image + i * side * side);
  }
  return drawn;
}

}  // namespace bytetape::data
