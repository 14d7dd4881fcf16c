#include "tests/ops/families.h"

namespace bytetape::test {
namespace {

OpRow interpolate_row(const std::string& variant, const InterpolateOptions& options,
                      const Input& large = in(4, 8, 40, 44)) {
  const auto refusing = [](const std::string& words, const InterpolateOptions& o) {
    return bad<ValueError>(words, {in(1, 1, 4, 4)}, [o](X x) { return interpolate(x[0], o); });
  };
  return {
      "interpolate",
      variant,
      [options](X x) { return interpolate(x[0], options); },
      [options](A x) { return ref::interpolate(x[0], options); },
      images,
      Draw::normal,
      {bad<DTypeError>("floating", {in(1, 1, 4, 4).as(DType::i64)}),
       bad<ShapeError>("expected x (n, c, h, w), got f64(4, 4)", {in(4, 4)}),
       bad<ShapeError>("nothing to interpolate in f64(1, 1, 4, 0)", {in(1, 1, 4, 0)}),
       bad<ShapeError>("expected an output size from 1 to", {in(1, 1, 4, 4)},
                       [](X x) { return interpolate(x[0], {.scale_factor = 0.2}); }),
       refusing("either size or scale_factor, got size (0, 0) and scale_factor (0, 0)", {}),
       refusing("either size or scale_factor, got size (2, 2) and scale_factor (3, 3)", {.size = 2, .scale_factor = 3}),
       refusing("size must be positive, got (2, -1)", {.size = {2, -1}}),
       refusing("scale_factor must be positive, got (0.5, 0)", {.scale_factor = {0.5, 0}}),
       refusing("align_corners is for bilinear", {.size = 2, .align_corners = true})},
      Gradients::twice,
      1,
      true,
      {large}};
}

}  // namespace

std::vector<OpRow> interpolate_rows() {
  const Input uneven = in(4, 33, 29, 31).channels_last(), whole = in(4, 16, 24, 32).channels_last();
  constexpr auto bilinear = InterpolationMode::bilinear;
  return {
      interpolate_row("nearest", {.scale_factor = 2}, whole),
      interpolate_row("nearest_size", {.size = {7, 3}}, uneven),
      interpolate_row("nearest_factor", {.scale_factor = {1.7, 0.6}}),
      interpolate_row("bilinear", {.scale_factor = 2, .mode = bilinear}, whole),
      interpolate_row("bilinear_size", {.size = {3, 11}, .mode = bilinear}, uneven),
      interpolate_row("bilinear_factor", {.scale_factor = {0.55, 2.3}, .mode = bilinear}),
      interpolate_row("corners", {.scale_factor = 2, .mode = bilinear, .align_corners = true}, whole),
      interpolate_row("corners_size", {.size = {1, 9}, .mode = bilinear, .align_corners = true}, uneven),
  };
}

}  // namespace bytetape::test
