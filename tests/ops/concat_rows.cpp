#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {

/// Joined the other way round, so that each part's gradient has to find its place.
static Tensor joined_reversed(std::vector<Tensor> parts, std::int64_t dim) {
  std::reverse(parts.begin(), parts.end());
  return cat(parts, dim);
}
/// Of parts of `size` along the last dim.
static Reference reversing(std::int64_t size) {
  return [size](A x) {
    Array y(x[0].shape);
    const std::int64_t n = x[0].size(-1);
    for_each_index(x[0].shape, [&](const Dims& at) {
      Dims to = at;
      const std::int64_t first = at.back() / size * size, length = std::min(size, n - first);
      to[to.size() - 1] = n - first - length + at.back() - first;
      y(to) = x[0](at);
    });
    return y;
  };
}
static const Cases lines{{in(7)},
                         {in(2, 5)},
                         {in(0, 3)},
                         {in(1)},
                         {in(4, 3).transposed()},
                         {in(2, 6).narrowed()},
                         {in(3, 4).expanded()},
                         {in(9).spaced()},
                         {in(2, 3, 2, 5).channels_last()}};

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
     .bad = {bad<ShapeError>("got f64(2, 4) on", {in(2, 3), in(2, 4)}),
             bad<ShapeError>("got f64(2,) on", {in(2, 3), in(2)}),
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
     .bad = {bad<ShapeError>("to have the shape of tensor 0", {in(2, 3), in(3, 3)})}, .large = {in(300, 200), in(300, 201)}},
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
     .bad = {bad<ShapeError>("to have the shape of tensor 0", {in(2), in(3)}),
             bad<DTypeError>("have different dtypes", {in(2), in(2).as(DType::f32)})},
     .large = {in(300, 200), in(300, 200)}},
    {.op = "split", .f = [](X x) { return joined_reversed(split(x[0], 2, -1), -1); }, .reference = reversing(2), .cases = lines,
     .bad = {bad<ValueError>("split_size must be positive, got 0", {in(3)}, [](X x) { return split(x[0], 0)[0]; }),
             bad<ShapeError>("a scalar has no dim to split", {in()}),
             out_of_range([](X x) { return split(x[0], 1, 2)[0]; })}},
    {.op = "split", .variant = "sizes",
     .f =
         [](X x) {
           if (!x[0].defined()) return split(x[0], std::vector<std::int64_t>{1}, -1)[0];
           const std::int64_t n = x[0].size(-1), first = std::min<std::int64_t>(n, 3);
           return joined_reversed(split(x[0], {first, 0, n - first}, -1), -1);
         },
     .reference =
         [](A x) {
           const std::int64_t n = x[0].size(-1), first = std::min<std::int64_t>(n, 3);
           Array y(x[0].shape);
           for_each_index(x[0].shape, [&](const Dims& at) {
             Dims to = at;
             to[to.size() - 1] = at.back() < first ? n - first + at.back() : at.back() - first;
             y(to) = x[0](at);
           });
           return y;
         },
     .cases = lines,
     .bad = {bad<ShapeError>("add up to 3, the size of dim 0 of f64(3,)", {in(3)}, [](X x) { return split(x[0], {1, 1})[0]; }),
             bad<ShapeError>("that are not negative and add up to 3", {in(3)}, [](X x) { return split(x[0], {4, -1})[0]; })}},
    {.op = "chunk", .f = [](X x) { return joined_reversed(chunk(x[0], 3, -1), -1); },
     .reference = [](A x) { return reversing(std::max<std::int64_t>((x[0].size(-1) + 2) / 3, 1))(x); }, .cases = lines,
     .bad = {bad<ValueError>("chunks must be positive, got 0", {in(3)}, [](X x) { return chunk(x[0], 0)[0]; }),
             bad<ShapeError>("a scalar has no dim to split", {in()})}},
    {.op = "chunk", .variant = "one_used", .f = [](X x) { return chunk(x[0], 2, -1)[0]; },
     .reference =
         [](A x) {
           Shape shape = x[0].shape;
           shape[shape.size() - 1] = (shape.back() + 1) / 2;
           Array y(shape);
           for_each_index(shape, [&](const Dims& at) { y(at) = x[0](at); });
           return y;
         },
     .cases = lines},
  };
}
// clang-format on

}  // namespace bytetape::test
