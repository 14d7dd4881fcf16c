// In place of stb.cpp where there is nothing to write PNG with.
#include "examples/picture/canvas.h"

namespace bytetape::examples {

void check_pictures() {
  fail<ValueError>(
      "this build writes no pictures, as libstb-dev or fonts-dejavu-core was not there: run "
      "scripts/install_dependencies, then configure and build again");
}

// Nothing gets here: check_pictures() comes first.
void Canvas::draw_text(const std::string&, int, int, double, Color, Align) { check_pictures(); }
void Canvas::write_png(const std::string&) const { check_pictures(); }

}  // namespace bytetape::examples
