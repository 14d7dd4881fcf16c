#pragma once
#include <bytetape/bytetape.h>

#include <string>
#include <vector>

namespace bytetape::examples {

struct Color {
  std::uint8_t red, green, blue;
};

/// The part of a text that is placed at the given x.
enum class Align : std::uint8_t { left, center, right };

/// A picture with text, white at first. Coordinates are in pixels from the top left.
class Canvas {
 public:
  Canvas(int width, int height);

  int width() const { return width_; }
  int height() const { return height_; }

  /// Draws pixels u8 (1 or 3, h, w) with the top left at (x, y), each as a square of `scale`. Clips to the canvas.
  void draw_image(const Tensor& pixels, int x, int y, int scale);
  /// Draws a line of text with the baseline y, in a font of `size` pixels.
  void draw_text(const std::string& text, int x, int y, double size, Color color, Align align = Align::left);

  /// Throws FileError if the file cannot be written.
  void write_png(const std::string& path) const;

 private:
  void blend(int x, int y, Color color, double part);

  int width_, height_;
  std::vector<Color> pixels_;
};

/// Returns the u8 pixels of floating images (n, c, h, w) that were normalised by `normalize`.
Tensor pixels_of(const Tensor& images, const data::Normalize& normalize);

/// Throws ValueError, naming the missing packages, if this build cannot write pictures.
/// Throws FileError if the font cannot be read.
void check_pictures();

}  // namespace bytetape::examples
