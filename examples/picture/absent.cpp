// Replaces stb.cpp in a build without stb or the font.
#include "examples/picture/canvas.h"

namespace bytetape::examples {

void check_pictures() {
  fail<ValueError>(
      "this build cannot write pictures, because libstb-dev or fonts-dejavu-core was missing: run "
      "scripts/install_dependencies, then configure and build again");
}

// Never reached, because check_pictures() is called first.
void Canvas::draw_text(const std::string&, int, int, double, Color, Align) { check_pictures(); }
void Canvas::write_png(const std::string&) const { check_pictures(); }

}  // namespace bytetape::examples
