#include "tests/ops/families.h"

namespace bytetape::test {
namespace {

/// Over the last `dims` dims.
OpRow row(const std::string& variant, int dims, const Cases& cases, const Case& large,
          const std::vector<BadInput>& bads) {
  const auto last = [=](const Shape& s) { return Shape(std::span(s.end() - std::min(dims, s.size()), s.end())); };
  return {
      .op = "layer_norm",
      .variant = variant,
      .f = [=](X x) { return layer_norm(x[0], x[0].defined() ? last(x[0].shape()) : 1, if_any(x, 1), if_any(x, 2)); },
      .reference = [=](A x) { return ref::layer_norm(x[0], dims, if_any(x, 1), if_any(x, 2), 1e-5); },
      .cases = cases,
      .bad = bads,
      .tolerance = 4,
      .large = large};
}

/// x, residual, weight and bias to y, or to y and the sum behind each other.
OpRow add_row(const std::string& variant, bool with_sum, const std::vector<BadInput>& bads) {
  return {.op = "add_layer_norm",
          .variant = variant,
          .f =
              [=](X x) {
                const Shape last = x[1].defined() ? Shape{x[1].size(-1)} : Shape{1};
                const AddLayerNorm made = add_layer_norm(x[0], x[1], last, if_any(x, 2), if_any(x, 3));
                return with_sum ? cat({made.y, made.sum}) : made.y;
              },
          .reference =
              [=](A x) {
                Array sum = x[0];
                for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += x[1].values[i];
                const Array y = ref::layer_norm(sum, 1, if_any(x, 2), if_any(x, 3), 1e-5);
                return with_sum ? ref::cat({y, sum}, 0) : y;
              },
          .cases = {{in(6), in(6), in(6), in(6)},
                    {in(3, 4), in(3, 4), in(4), in(4)},
                    {in(2, 3, 5), in(2, 3, 5).narrowed(), in(5), in(5)},
                    {in(0, 3), in(0, 3), in(3), in(3)},
                    {in(4, 3).transposed(), in(4, 3), in(3).spaced(), in(3)},
                    {in(3, 5).narrowed(), in(3, 5).expanded(), in(5), in(5).narrowed()},
                    {in(2, 3, 2, 4).channels_last(), in(2, 3, 2, 4), in(4), in(4)},
                    {in(3, 8), in(3, 8)},
                    {in(2, 700), in(2, 700), in(700), in(700)}},
          .bad = bads,
          .tolerance = 4,
          .large = {in(1500, 72), in(1500, 72), in(72), in(72)}};
}

}  // namespace

std::vector<OpRow> layer_norm_rows() {
  return {
      row("", 1,
          {{in(6), in(6), in(6)},
           {in(3, 4), in(4), in(4)},
           {in(2, 3, 5), in(5), in(5)},
           {in(0, 3), in(3), in(3)},
           {in(4, 3).transposed(), in(3).spaced(), in(3)},
           {in(3, 5).narrowed(), in(5), in(5).narrowed()},
           {in(3, 4).expanded(), in(4).expanded(), in(4)},
           {in(2, 3, 2, 4).channels_last(), in(4), in(4)},
           {in(2, 700), in(700), in(700)}},
          {in(1500, 70), in(70), in(70)},
          {bad<DTypeError>("floating", {in(4, 3).as(DType::i64), in(3), in(3)}),
           bad<ShapeError>("expected x whose last dims are (4,), got f64(2, 3)", {in(2, 3)},
                           [](X x) { return layer_norm(x[0], 4); }),
           bad<ShapeError>("expected a weight (3,), got f64(4,)", {in(2, 3), in(4), in(3)}),
           bad<DTypeError>("bias must have the dtype of x", {in(2, 3), in(3), in(3).as(DType::f32)}),
           bad<DeviceError>("weight is on another device than x", {in(2, 3), in(3).elsewhere(), in(3)}),
           bad<ValueError>("eps must not be negative", {in(2, 3)},
                           [](X x) { return layer_norm(x[0], 3, {}, {}, -1); })}),
      row("two_dims", 2,
          {{in(3, 4), in(3, 4), in(3, 4)},
           {in(2, 3, 4), in(3, 4), in(3, 4)},
           {in(0, 3, 2), in(3, 2), in(3, 2)},
           {in(2, 4, 3).transposed(), in(4, 3).transposed(), in(4, 3)},
           {in(2, 2, 3, 2).channels_last(), in(3, 2), in(3, 2).narrowed()},
           {in(3, 2, 4).narrowed(), in(2, 4), in(2, 4)}},
          {in(400, 6, 40), in(6, 40), in(6, 40)}, {}),
      row("no_affine", 1,
          {{in(5)}, {in(2, 3)}, {in(0, 3)}, {in(4, 3).transposed()}, {in(2, 3, 4).narrowed()}, {in(3, 1)}},
          {in(1500, 70)}, {}),
      add_row("", false,
              {bad<DTypeError>("floating", {in(4, 3).as(DType::i64), in(4, 3).as(DType::i64)}),
               bad<ShapeError>("expected a residual of the shape of f64(2, 3)", {in(2, 3), in(3)}),
               bad<DTypeError>("inputs of different dtypes", {in(2, 3), in(2, 3).as(DType::f32)}),
               bad<DeviceError>("inputs on different devices", {in(2, 3), in(2, 3).elsewhere()}),
               bad<ValueError>("the residual is an undefined tensor", {in(2, 3), undefined}),
               bad<ShapeError>("expected a weight (3,), got f64(4,)", {in(2, 3), in(2, 3), in(4), in(3)})}),
      add_row("and_sum", true, {}),
  };
}

}  // namespace bytetape::test
