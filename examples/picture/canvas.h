#pragma once
#include <bytetape/bytetape.h>

#include <string>
#include <vector>

namespace bytetape::examples {

struct Color {
  std::uint8_t red, green, blue;
};

/// Where text stands beside the point that it is given.
enum class Align : std::uint8_t { left, center, right };

/// A picture with text in it: pixels from the top left on, white at first.
class Canvas {
 public:
  Canvas(int width, int height);

  int width() const { return width_; }
  int height() const { return height_; }

  /// Pixels u8 (1 or 3, h, w) with their top left at (x, y), each as a square of `scale`. What lies outside is cut off.
  void draw_image(const Tensor& pixels, int x, int y, int scale);
  /// A line of text on the baseline y, `size` pixels high from line to line.
  void draw_text(const std::string& text, int x, int y, double size, Color color, Align align = Align::left);

  /// Throws FileError as write_file does.
  void write_png(const std::string& path) const;

 private:
  void blend(int x, int y, Color color, double part);

  int width_, height_;
  std::vector<Color> pixels_;
};

/// The pixels u8 of floating images (n, c, h, w) that were normalised so.
Tensor pixels_of(const Tensor& images, const data::Normalize& normalize);

/// Throws ValueError, saying what is missing, where this build cannot write pictures, FileError where the font is gone.
void check_pictures();

}  // namespace bytetape::examples
