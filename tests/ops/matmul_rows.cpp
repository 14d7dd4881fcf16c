#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {
namespace {

OpRow linear_row(const std::string& variant, Activation activation) {
  const bool relu = activation == Activation::relu;
  const auto activated = [=](double v) {
    return relu ? std::max(v, 0.0) : activation == Activation::gelu_tanh ? gelu_tanh_of(v) : v;
  };
  OpRow row{.op = "linear",
            .variant = variant,
            .f = [=](X x) { return linear(x[0], x[1], if_any(x, 2), activation); },
            .reference =
                [=](A x) {
                  Array y = ref::matmul(x[0], ref::transpose(x[1]));
                  for_each_index(y.shape, [&](const Dims& at) { y(at) = activated(y(at) + x[2]({at.back()})); });
                  return y;
                },
            .cases = {{in(5, 3), in(4, 3), in(4)},
                      {in(3), in(4, 3), in(4)},
                      {in(2, 5, 3), in(1, 3), in(1)},
                      {in(6, 2), in(8, 2), in(8)},
                      {in(0, 3), in(4, 3), in(4)},
                      {in(2, 0), in(3, 0), in(3)},
                      {in(5, 3).transposed(), in(4, 3).transposed(), in(4)},
                      {in(3, 3).expanded(), in(4, 3).narrowed(), in(4).spaced()},
                      {in(6, 8), in(8, 8), in(8).narrowed()},
                      {in(2, 3, 2).transposed(), in(2, 2), in(2)}},
            .draw = relu ? Draw::halves : Draw::normal,
            .bad = {bad<ShapeError>("the input's last dim is 3, but the weight takes 2: input f64(5, 3)",
                                    {in(5, 3), in(4, 2), in(4)}),
                    bad<ShapeError>("expected a bias (4,)", {in(5, 3), in(4, 3), in(3)}),
                    bad<DTypeError>("different dtypes", {in(5, 3), in(4, 3).as(DType::f32), in(4)}),
                    bad<DTypeError>("different dtypes", {in(5, 3), in(4, 3), in(4).as(DType::f32)}),
                    bad<DeviceError>("different devices", {in(5, 3), in(4, 3).elsewhere(), in(4)})},
            .tolerance = 2,
            .large = {in(200, 150), in(224, 150), in(224)}};
  if (relu) away_from_the_kink(row);
  return row;
}

}  // namespace

// A table: what belongs together stays on a line.
// clang-format off
std::vector<OpRow> matmul_rows() {
  return {
    {.op = "matmul", .f = of(matmul), .reference = [](A x) { return ref::matmul(x[0], x[1]); },
     .cases = {{in(3), in(3)},
               {in(2, 3), in(3)},
               {in(3), in(3, 2)},
               {in(2, 3), in(3, 4)},
               {in(0, 3), in(3, 2)},
               {in(2, 0), in(0, 3)},
               {in(2, 3, 4), in(4, 2)},
               {in(3, 4), in(2, 4, 2)},
               {in(2, 1, 3, 2), in(3, 2, 2)},
               {in(0, 3, 2), in(2, 2)},
               {in(4, 3).transposed(), in(3, 5).transposed()},
               {in(2, 3, 4).expanded(), in(2, 4, 3).narrowed()},
               {in(5, 4).spaced(), in(4, 3)},
               {in(2, 3, 2, 4).channels_last(), in(2, 3, 4, 2).channels_last()}},
     .bad = {bad<ShapeError>("do not match the rows of f64(4, 2)", {in(2, 3), in(4, 2)}),
             bad<ShapeError>("the batches of f64(2, 2, 3)",
                             {in(2, 2, 3), in(3, 3, 2)}),
             bad<ShapeError>("at least one dimension", {in(), in(3)}),
             bad<DTypeError>("floating", {in(2, 3).as(DType::i64), in(3, 2).as(DType::i64)}),
             bad<DTypeError>("different dtypes", {in(2, 3), in(3, 2).as(DType::f32)}),
             bad<DeviceError>("different devices", {in(2, 3), in(3, 2).elsewhere()})},
     .tolerance = 2, .large = {in(200, 150), in(150, 220)}},
    linear_row("", Activation::none),
    linear_row("relu", Activation::relu),
    linear_row("gelu_tanh", Activation::gelu_tanh),
    {.op = "linear", .variant = "no_bias", .f = [](X x) { return linear(x[0], x[1]); },
     .reference = [](A x) { return ref::matmul(x[0], ref::transpose(x[1])); },
     .cases = {{in(5, 3), in(4, 3)},
               {in(3), in(4, 3)},
               {in(2, 5, 3), in(1, 3)},
               {in(0, 3), in(4, 3)},
               {in(5, 3).transposed(), in(4, 3).transposed()},
               {in(3, 3).expanded(), in(4, 3).narrowed()}},
     .tolerance = 2, .large = {in(200, 150), in(220, 150)}},
  };
}
// clang-format on

}  // namespace bytetape::test
