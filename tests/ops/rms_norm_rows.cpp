#include "tests/ops/families.h"

namespace bytetape::test {
namespace {

/// Over the last `dims` dims.
OpRow row(const std::string& variant, int dims, const Cases& cases, const Case& large,
          const std::vector<BadInput>& bads) {
  const auto last = [=](const Shape& s) { return Shape(std::span(s.end() - std::min(dims, s.size()), s.end())); };
  return {.op = "rms_norm",
          .variant = variant,
          .f = [=](X x) { return rms_norm(x[0], x[0].defined() ? last(x[0].shape()) : 1, if_any(x, 1), 1e-5); },
          .reference = [=](A x) { return ref::rms_norm(x[0], dims, if_any(x, 1), 1e-5); },
          .cases = cases,
          .bad = bads,
          .tolerance = 4,
          .large = large};
}

}  // namespace

std::vector<OpRow> rms_norm_rows() {
  return {
      row("", 1,
          {{in(6), in(6)},
           {in(3, 4), in(4)},
           {in(2, 3, 5), in(5)},
           {in(0, 3), in(3)},
           {in(3, 1), in(1)},
           {in(4, 3).transposed(), in(3).spaced()},
           {in(3, 5).narrowed(), in(5).narrowed()},
           {in(3, 4).expanded(), in(4).expanded()},
           {in(2, 3, 2, 4).channels_last(), in(4)},
           {in(2, 700), in(700)}},
          {in(1500, 70), in(70)},
          {bad<DTypeError>("floating", {in(4, 3).as(DType::i64), in(3)}),
           bad<ShapeError>("expected x whose last dims are (4,), got f64(2, 3)", {in(2, 3)},
                           [](X x) { return rms_norm(x[0], 4); }),
           bad<ShapeError>("normalized_shape is empty", {in(2, 3)}, [](X x) { return rms_norm(x[0], Shape{}); }),
           bad<ShapeError>("expected a weight (3,), got f64(4,)", {in(2, 3), in(4)}),
           bad<DTypeError>("weight must have the dtype of x", {in(2, 3), in(3).as(DType::f32)}),
           bad<DeviceError>("weight is on another device than x", {in(2, 3), in(3).elsewhere()}),
           bad<ValueError>("eps must not be negative", {in(2, 3)}, [](X x) { return rms_norm(x[0], 3, {}, -1); })}),
      row("two_dims", 2,
          {{in(3, 4), in(3, 4)},
           {in(2, 3, 4), in(3, 4)},
           {in(0, 3, 2), in(3, 2)},
           {in(2, 4, 3).transposed(), in(4, 3).transposed()},
           {in(2, 2, 3, 2).channels_last(), in(3, 2).narrowed()},
           {in(3, 2, 4).narrowed(), in(2, 4)}},
          {in(400, 6, 40), in(6, 40)}, {}),
      row("wide", 1,
          {{in(6), in(6)},
           {in(3, 4), in(4)},
           {in(0, 3), in(3)},
           {in(3, 2), in(2)},
           {in(4, 3).transposed(), in(3).spaced()},
           {in(3, 5).narrowed(), in(5).narrowed()}},
          {in(20, 9000), in(9000)}, {}),
      row("no_affine", 1,
          {{in(5)}, {in(2, 3)}, {in(0, 3)}, {in(4, 3).transposed()}, {in(2, 3, 4).narrowed()}, {in(3, 2)}},
          {in(1500, 70)}, {}),
  };
}

}  // namespace bytetape::test
