#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {

// A table: what belongs together stays on a line.
// clang-format off
std::vector<OpRow> concat_rows() {
  return {
    {.op = "cat", .variant = "first", .f = [](X x) { return cat(x, 0); },
     .reference = [](A x) { return ref::cat(x, 0); },
     .cases = {{in(3)},
               {in(2, 3), in(1, 3)},
               {in(0, 3), in(2, 3)},
               {in(2), in(3), in(1), in(4), in(5)},
               {in(4, 3).transposed(), in(2, 3).narrowed()},
               {in(3, 4).expanded(), in(2, 4).spaced()},
               {in(2, 3, 2, 2).channels_last(), in(1, 3, 2, 2).channels_last()}},
     .bad = {bad<ShapeError>("tensor 1, f64(2, 4) on", {in(2, 3), in(2, 4)}),
             bad<ShapeError>("tensor 1, f64(2,) on", {in(2, 3), in(2)}),
             out_of_range([](X x) { return cat(x, 2); }),
             bad<ShapeError>("scalars have no dim to join", {in(), in()}),
             bad<DTypeError>("have different dtypes", {in(2), in(2).as(DType::f32)}),
             bad<DeviceError>("are on different devices", {in(2), in(2).elsewhere()}),
             bad<ValueError>("tensor 1 is undefined", {in(2), undefined}),
             bad<ValueError>("expected at least one tensor", {})},
     .large = {in(200, 401), in(100, 401)}},
    {.op = "cat", .variant = "second", .f = [](X x) { return cat(x, 1); },
     .reference = [](A x) { return ref::cat(x, 1); },
     .cases = {{in(2, 3)},
               {in(2, 3), in(2, 1)},
               {in(2, 0), in(2, 3)},
               {in(2, 1, 3), in(2, 2, 3), in(2, 1, 3)},
               {in(4, 3).transposed(), in(4, 2).narrowed()},
               {in(3, 4).expanded(), in(3, 2).spaced()},
               {in(2, 3, 2, 2).channels_last(), in(2, 1, 2, 2).channels_last()}},
     .bad = {bad<ShapeError>("does not fit tensor 0", {in(2, 3), in(3, 3)})}, .large = {in(300, 200), in(300, 201)}},
    {.op = "stack", .f = [](X x) { return stack(x, -1); },
     .reference =
         [](A x) {
           Arrays parts = x;
           for (Array& part : parts) part.shape.push_back(1);
           return ref::cat(parts, parts[0].shape.size() - 1);
         },
     .cases = {{in()},
               {in(), in(), in()},
               {in(2, 3), in(2, 3)},
               {in(0, 3), in(0, 3)},
               {in(4, 3).transposed(), in(4, 3).narrowed()},
               {in(3, 4).expanded(), in(3, 4).spaced()},
               {in(2, 3, 2, 2).channels_last(), in(2, 3, 2, 2)}},
     .bad = {bad<ShapeError>("does not fit tensor 0", {in(2), in(3)}),
             bad<DTypeError>("have different dtypes", {in(2), in(2).as(DType::f32)})},
     .large = {in(300, 200), in(300, 200)}},
  };
}
// clang-format on

}  // namespace bytetape::test
