#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {

// A table: what belongs together stays on a line.
// clang-format off
std::vector<OpRow> view_rows() {
  return {
    {.op = "view",
     .f =
         [](X x) {
           Shape s = x[0].defined() ? x[0].shape() : Shape{};
           s.push_back(1);
           return view(x[0], s);
         },
     .reference = reshaping([](const Shape& s) {
       Shape t = s;
       t.push_back(1);
       return t;
     }),
     .cases = one,
     .bad = {bad<ShapeError>("shape (4, 2) does not fit f64(2, 3)", {in(2, 3)},
                             [](X x) {
                               return view(x[0], {4, 2});
                             }),
             bad<ShapeError>("cannot be seen as (6,) without a copy; use reshape", {in(2, 3).transposed()},
                             [](X x) { return view(x[0], {6}); })}},
    {.op = "reshape", .f = [](X x) { return reshape(x[0], {-1}); }, .reference = reshaping(flat), .cases = one,
     .bad = {bad<ShapeError>("only one size of (-1, -1) can be -1", {in(2, 3)},
                             [](X x) {
                               return reshape(x[0], {-1, -1});
                             }),
             bad<ShapeError>("does not fit f64(2, 3)", {in(2, 3)},
                             [](X x) {
                               return reshape(x[0], {4, -1});
                             })}},
    {.op = "flatten", .f = [](X x) { return flatten(x[0], 1); },
     .reference = reshaping([](const Shape& s) {
       return Shape{s[0], s[0] ? numel(s) / s[0] : s[1]};
     }),
     .cases = matrices,
     .bad = {bad<ShapeError>("start_dim 1 comes after end_dim 0", {in(2, 3)},
                             [](X x) { return flatten(x[0], 1, 0); })}},
    {.op = "transpose", .f = [](X x) { return transpose(x[0], 0, -1); },
     .reference = rearranging(swapped, [](const Dims& at, const Shape&) { return swapped(at); }), .cases = one,
     .bad = {out_of_range([](X x) { return transpose(x[0], 0, 2); })}},
    {.op = "permute",
     .f =
         [](X x) {
           Dims dims;
           for (int d = x[0].defined() ? x[0].rank() : 0; d > 0; --d) dims.push_back(-(x[0].rank() - d + 1));
           return permute(x[0], dims);
         },
     .reference = rearranging(reversed, [](const Dims& at, const Shape&) { return reversed(at); }), .cases = one,
     .bad = {bad<ShapeError>("expected 2 dims", {in(2, 3)}, [](X x) { return permute(x[0], {0}); }),
             bad<ShapeError>("appears twice", {in(2, 3)},
                             [](X x) {
                               return permute(x[0], {1, -1});
                             })}},
    {.op = "narrow", .f = [](X x) { return narrow(x[0], -1, 1, 2); },
     .reference = rearranging(
         [](const Shape& s) {
           Shape t = s;
           t[t.size() - 1] = 2;
           return t;
         },
         [](const Dims& at, const Shape&) {
           Dims from = at;
           ++from[from.size() - 1];
           return from;
         }),
     .cases = matrices,
     .bad = {bad<ShapeError>("2 elements from 1 are out of range in dim -1 of f64(3, 2)", {in(3, 2)}),
             bad<ShapeError>("a scalar has no dim to narrow", {in()})}},
    {.op = "select", .f = [](X x) { return select(x[0], -1, 1); },
     .reference = rearranging([](const Shape& s) { return Shape(std::span(s.begin(), s.end() - 1)); },
                              [](const Dims& at, const Shape&) {
                                Dims from = at;
                                from.push_back(1);
                                return from;
                              }),
     .cases = matrices,
     .bad = {bad<ShapeError>("index 1 is out of range in dim -1 of f64(3, 1)", {in(3, 1)}),
             bad<ShapeError>("a scalar has no dim to select from", {in()})}},
    {.op = "slice", .f = [](X x) { return slice(x[0], -1, Slice(-2, 1000)); },
     .reference = rearranging(
         [](const Shape& s) {
           Shape t = s;
           t[t.size() - 1] = std::min<std::int64_t>(2, s.back());
           return t;
         },
         [](const Dims& at, const Shape& s) {
           Dims from = at;
           from[from.size() - 1] += std::max<std::int64_t>(s.back() - 2, 0);
           return from;
         }),
     .cases = matrices,
     .bad = {bad<ValueError>("the step must be positive, got -1", {in(3)},
                             [](X x) { return slice(x[0], 0, Slice(None, None, -1)); }),
             bad<ShapeError>("a scalar has no dim to slice", {in()})}},
    {.op = "slice", .variant = "steps", .f = [](X x) { return slice(x[0], 0, Slice(1, None, 2)); },
     .reference = rearranging(
         [](const Shape& s) {
           Shape t = s;
           t[0] = s[0] / 2;
           return t;
         },
         [](const Dims& at, const Shape&) {
           Dims from = at;
           from[0] = 2 * at[0] + 1;
           return from;
         }),
     .cases = matrices + Case{in(7)} + Case{in(6)}},
    {.op = "expand",
     .f =
         [](X x) {
           return expand(x[0], {3, 2, -1});
         },
     .reference =
         [](A x) {
           Array y(Shape{3, 2, x[0].size(-1)});
           for_each_index(y.shape, [&](const Dims& at) { y(at) = x[0](at); });
           return y;
         },
     .cases = {{in(3, 2, 4)},
               {in(5)},
               {in(1, 3)},
               {in(3, 1, 2)},
               {in(2, 0)},
               {in(2, 4).transposed()},
               {in(3, 1, 4).expanded()},
               {in(2, 3).narrowed()},
               {in(4).spaced()}},
     .bad = {bad<ShapeError>("cannot be expanded to (3, 2, -1)", {in(4, 5)}, {}),
             bad<ShapeError>("has more dims than (3, 2, -1)", {in(1, 1, 1, 1)})},
     .large = {in(2, 60000)}},
    {.op = "squeeze", .f = [](X x) { return squeeze(x[0]); },
     .reference = reshaping([](const Shape& s) {
       Shape t;
       for (const std::int64_t n : s)
         if (n != 1) t.push_back(n);
       return t;
     }),
     .cases = {{in()},
               {in(1, 1)},
               {in(3, 1, 2)},
               {in(1, 0)},
               {in(4, 1).transposed()},
               {in(2, 1, 3).narrowed()},
               {in(3, 1).expanded()},
               {in(2, 1, 2, 3).channels_last()}},
     .large = {in(300, 1, 401)}},
    {.op = "squeeze", .variant = "dim", .f = [](X x) { return squeeze(x[0], -1); },
     .reference = reshaping([](const Shape& s) {
       Shape t = s;
       if (!t.empty() && t.back() == 1) t.erase(t.size() - 1);
       return t;
     }),
     .cases = one + Case{in(2, 3, 1)}, .bad = {out_of_range([](X x) { return squeeze(x[0], 2); })},
     .large = {in(300, 401, 1)}},
    {.op = "unsqueeze", .f = [](X x) { return unsqueeze(x[0], -1); },
     .reference = reshaping([](const Shape& s) {
       Shape t = s;
       t.push_back(1);
       return t;
     }),
     .cases = one,
     .bad = {bad<ShapeError>("dim 3 is out of range", {in(2, 3)}, [](X x) { return unsqueeze(x[0], 3); })}},
  };
}
// clang-format on

}  // namespace bytetape::test
