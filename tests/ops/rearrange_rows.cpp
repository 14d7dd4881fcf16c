#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {
namespace {

Shape unchanged(const Shape& s) { return s; }

std::int64_t modulo(std::int64_t i, std::int64_t n) { return (i % n + n) % n; }

/// The place of x of an element that roll moves by `shift` along d.
Dims before_roll(const Dims& at, const Shape& s, int d, std::int64_t shift) {
  Dims from = at;
  if (s.size() > 0)
    from[d < 0 ? d + s.size() : d] = modulo(at[d < 0 ? d + s.size() : d] - shift, s[d < 0 ? d + s.size() : d]);
  return from;
}

Array rolled_flat(A x) {
  Array y(x[0].shape);
  const auto n = static_cast<std::int64_t>(y.values.size());
  for (std::int64_t i = 0; i < n; ++i)
    y.values[static_cast<std::size_t>(modulo(i - 2, n))] = x[0].values[static_cast<std::size_t>(i)];
  return y;
}

/// x repeated `repeats` times along each dim.
Array repeated(const Array& x, const Dims& repeats) {
  Shape shape = repeats;
  const int added = repeats.size() - x.shape.size();
  for (int d = 0; d < x.shape.size(); ++d) shape[added + d] *= x.shape[d];
  Array y(shape);
  for_each_index(shape, [&](const Dims& at) {
    Dims from = x.shape;
    for (int d = 0; d < from.size(); ++d) from[d] = at[added + d] % x.shape[d];
    y(at) = x(from);
  });
  return y;
}

/// Repeats of all dims, 2, 3, 2, 3 ..., with one more in front.
Dims repeats_of(const Shape& s) {
  Dims repeats = 2;
  for (int d = 0; d < s.size(); ++d) repeats.push_back(d % 2 ? 2 : 3);
  return repeats;
}

}  // namespace

// A table: what belongs together stays on a line.
// clang-format off
std::vector<OpRow> rearrange_rows() {
  const auto shape_of = [](X x) { return x[0].defined() ? x[0].shape() : Shape{}; };
  return {
    {.op = "flip", .f = [](X x) { return flip(x[0], {0, -1}); },
     .reference = rearranging(unchanged, [](const Dims& at, const Shape& s) {
       Dims from = at;
       from[0] = s[0] - 1 - at[0];
       from[s.size() - 1] = s.back() - 1 - at.back();
       return from;
     }),
     .cases = matrices,
     .bad = {bad<ShapeError>("dim 2 is out of range for shape (2, 3)", {in(2, 3)}, [](X x) { return flip(x[0], 2); }),
             bad<ShapeError>("appears twice", {in(2, 3)},
                             [](X x) {
                               return flip(x[0], {1, -1});
                             })}},
    {.op = "flip", .variant = "first", .f = [](X x) { return flip(x[0], 0); },
     .reference = rearranging(unchanged, [](const Dims& at, const Shape& s) {
       Dims from = at;
       if (s.size() > 0) from[0] = s[0] - 1 - at[0];
       return from;
     }),
     .cases = one, .large = {in(301, 64)}},
    {.op = "roll", .f = [](X x) { return roll(x[0], 4, -1); },
     .reference = rearranging(unchanged, [](const Dims& at, const Shape& s) { return before_roll(at, s, -1, 4); }),
     .cases = one,
     .bad = {bad<ShapeError>("a shift for each dim, or one without dims, got (1, 2) for ()", {in(2, 3)},
                             [](X x) {
                               return roll(x[0], {1, 2});
                             }),
             bad<ShapeError>("got (1,) for (0, 1)", {in(2, 3)},
                             [](X x) {
                               return roll(x[0], 1, {0, 1});
                             }),
             out_of_range([](X x) { return roll(x[0], 1, 2); })}},
    {.op = "roll", .variant = "dims",
     .f =
         [](X x) {
           return roll(x[0], {-1, 2, 3}, {0, -1, 0});
         },
     .reference = rearranging(unchanged,
                              [](const Dims& at, const Shape& s) {
                                return before_roll(before_roll(at, s, 0, 2), s, -1, 2);
                              }),
     .cases = matrices},
    {.op = "roll", .variant = "flat", .f = [](X x) { return roll(x[0], -2); }, .reference = rolled_flat, .cases = one},
    {.op = "repeat", .f = [=](X x) { return repeat(x[0], repeats_of(shape_of(x))); },
     .reference = [](A x) { return repeated(x[0], repeats_of(x[0].shape)); }, .cases = one,
     .bad = {bad<ShapeError>("not negative for each dim of f64(2, 3) on", {in(2, 3)},
                             [](X x) { return repeat(x[0], 2); }),
             bad<ShapeError>("got (2, -1)", {in(2, 3)},
                             [](X x) {
                               return repeat(x[0], {2, -1});
                             })},
     .tolerance = 4},
    {.op = "repeat", .variant = "none",
     .f =
         [=](X x) {
           return repeat(x[0], Dims::filled(shape_of(x).size(), 0));
         },
     .reference = [](A x) { return repeated(x[0], Dims::filled(x[0].shape.size(), 0)); },
     .cases = matrices},
  };
}
// clang-format on

}  // namespace bytetape::test
