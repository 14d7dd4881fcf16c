// Text and PNG by stb (https://github.com/nothings/stb). The font is read when it is first needed.
#include "examples/picture/canvas.h"

#include <bytetape/core/write_file.h>
#include <stb_image_write.h>
#include <stb_truetype.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <ostream>

namespace bytetape::examples {
namespace {

class Font {
 public:
  /// Throws FileError if the file cannot be read.
  explicit Font(const char* path) {
    std::ifstream in(path, std::ios::binary);
    file_.assign(std::istreambuf_iterator<char>(in), {});
    const auto* bytes = reinterpret_cast<const unsigned char*>(file_.data());
    check<FileError>(!file_.empty() && stbtt_InitFont(&info, bytes, stbtt_GetFontOffsetForIndex(bytes, 0)),
                     "cannot read the font '", path, "', which pictures need: install fonts-dejavu-core");
  }
  float scale(double size) const { return stbtt_ScaleForPixelHeight(&info, static_cast<float>(size)); }
  float width(const std::string& text, float scale) const;
  /// Returns the pixels from the start of text[i] to the start of the next letter.
  float advance(const std::string& text, std::size_t i, float scale) const {
    int advance = 0, bearing = 0;
    stbtt_GetCodepointHMetrics(&info, text[i], &advance, &bearing);
    const int kern = i + 1 < text.size() ? stbtt_GetCodepointKernAdvance(&info, text[i], text[i + 1]) : 0;
    return scale * static_cast<float>(advance + kern);
  }

  stbtt_fontinfo info;

 private:
  std::vector<char> file_;
};

float Font::width(const std::string& text, float scale) const {
  float sum = 0;
  for (std::size_t i = 0; i < text.size(); ++i) sum += advance(text, i, scale);
  return sum;
}

const Font& font() {
  static const Font font(EXAMPLES_FONT);
  return font;
}

/// The coverage of each pixel by a letter, 0 to 255. The letter starts at the fraction `shift` of a pixel.
struct Letter {
  int left = 0, top = 0, width = 0, height = 0;  // from the pen
  std::vector<unsigned char> cover;

  Letter(const Font& font, char c, float scale, float shift) {
    int right = 0, bottom = 0;
    stbtt_GetCodepointBitmapBoxSubpixel(&font.info, c, scale, scale, shift, 0, &left, &top, &right, &bottom);
    width = right - left;
    height = bottom - top;
    cover.resize(static_cast<std::size_t>(width * height));
    stbtt_MakeCodepointBitmapSubpixel(&font.info, cover.data(), width, height, width, scale, scale, shift, 0, c);
  }
};

}  // namespace

void Canvas::draw_text(const std::string& text, int x, int y, double size, Color color, Align align) {
  const float scale = font().scale(size), width = font().width(text, scale);
  const float before = align == Align::left ? 0 : align == Align::center ? width / 2 : width;
  float pen = static_cast<float>(x) - before;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const float whole = std::floor(pen);
    const Letter letter(font(), text[i], scale, pen - whole);
    for (int row = 0; row < letter.height; ++row)
      for (int column = 0; column < letter.width; ++column) {
        const double cover = letter.cover[static_cast<std::size_t>(row * letter.width + column)] / 255.0;
        blend(static_cast<int>(whole) + letter.left + column, y + letter.top + row, color, cover);
      }
    pen += font().advance(text, i, scale);
  }
}

void Canvas::write_png(const std::string& path) const {
  const auto append = [](void* out, void* data, int size) {
    static_cast<std::ostream*>(out)->write(static_cast<const char*>(data), size);
  };
  write_file(path, "the picture", [&](std::ostream& out) {
    const bool is_written = stbi_write_png_to_func(append, &out, width_, height_, 3, pixels_.data(), 0) != 0;
    check<FileError>(is_written, "cannot write the picture to '", path, "': not enough memory to compress it");
  });
}

void check_pictures() { font(); }

}  // namespace bytetape::examples
