#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {

static double product(Values v) { return std::accumulate(v.begin(), v.end(), 1.0, std::multiplies<>()); }
static double log_sum_exp(Values v) {
  double sum = 0;
  for (const double e : v) sum += std::exp(e);
  return std::log(sum);
}
static double is_any(Values v) {
  return std::any_of(v.begin(), v.end(), [](double e) { return e != 0; });
}
static double is_all(Values v) {
  return std::all_of(v.begin(), v.end(), [](double e) { return e != 0; });
}
static double length(Values v) { return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0)); }

// A table: what belongs together stays on a line.
// clang-format off
std::vector<OpRow> reduce_rows() {
  return {
    {.op = "sum", .f = [](X x) { return sum(x[0]); }, .reference = reducing(total), .cases = one,
     .bad = {bad<ShapeError>("dim 2 is out of range", {in(2, 3)}, [](X x) { return sum(x[0], {2}); }),
             bad<ShapeError>("appears twice", {in(2, 3)},
                             [](X x) {
                               return sum(x[0], {0, -2});
                             })}},
    {.op = "sum", .variant = "last", .f = [](X x) { return sum(x[0], {-1}); }, .reference = reducing(total, {-1}),
     .cases = one},
    {.op = "sum", .variant = "outer_dims",
     .f =
         [](X x) {
           return sum(x[0], {0, 2}, true);
         },
     .reference = reducing(total, {0, 2}, true),
     .cases = {{in(2, 3, 4)},
               {in(1, 3, 1)},
               {in(0, 2, 3)},
               {in(2, 3, 2, 4).channels_last()},
               {in(2, 3, 3).transposed()},
               {in(3, 2, 4).expanded()},
               {in(2, 2, 3).narrowed()}},
     .bad = {bad<ShapeError>("dim 2 is out of range", {in(2, 3)})}, .large = {in(40, 50, 60)}},
    {.op = "prod", .f = [](X x) { return prod(x[0]); }, .reference = reducing(product), .cases = one,
     .draw = Draw::positive, .bad = {out_of_range([](X x) { return prod(x[0], {2}); })}, .large = {in(41)}},
    {.op = "prod", .variant = "last", .f = [](X x) { return prod(x[0], {-1}); }, .reference = reducing(product, {-1}),
     .cases = one, .draw = Draw::positive, .large = {in(3000, 41)}},
    {.op = "prod", .variant = "outer_dims", .f = [](X x) { return prod(x[0], {0, 2}, true); },
     .reference = reducing(product, {0, 2}, true),
     .cases = {{in(2, 3, 4)}, {in(1, 3, 1)}, {in(0, 2, 3)}, {in(2, 3, 2, 4).channels_last()}, {in(2, 3, 3).transposed()},
               {in(3, 2, 4).expanded()}, {in(2, 2, 3).narrowed()}},
     .draw = Draw::positive, .large = {in(5, 4000, 7)}},
    {.op = "mean", .f = [](X x) { return mean(x[0]); }, .reference = reducing(average), .cases = some,
     .bad = {integers}, .has_empty_case = false},
    {.op = "mean", .variant = "first", .f = [](X x) { return mean(x[0], {0}, true); },
     .reference = reducing(average, {0}, true), .cases = some + Case{in(3, 0)},
     .bad = {integers, out_of_range([](X x) { return mean(x[0], {2}); })}},
    {.op = "var", .f = [](X x) { return var(x[0]); }, .reference = reducing(unbiased),
     .cases = Cases(some.begin() + 1, some.end()), .bad = {integers}, .has_empty_case = false},
    {.op = "var", .variant = "biased_last", .f = [](X x) { return var(x[0], {-1}, true, 0); },
     .reference = reducing(variance, {-1}, true), .cases = some + Case{in(0, 3)},
     .bad = {integers, out_of_range([](X x) { return var(x[0], {2}); })}},
    {.op = "std", .f = [](X x) { return bytetape::std(x[0]); },
     .reference = reducing([](Values v) { return std::sqrt(unbiased(v)); }), .cases = Cases(some.begin() + 1, some.end()),
     .bad = {integers}, .has_empty_case = false},
    {.op = "std", .variant = "biased_last", .f = [](X x) { return bytetape::std(x[0], {-1}, true, 0); },
     .reference = reducing([](Values v) { return std::sqrt(variance(v)); }, {-1}, true), .cases = some + Case{in(0, 3)},
     .bad = {integers, out_of_range([](X x) { return bytetape::std(x[0], {2}); })}},
    {.op = "norm", .f = [](X x) { return norm(x[0]); }, .reference = reducing(length), .cases = one, .bad = {integers}},
    {.op = "norm", .variant = "first", .f = [](X x) { return norm(x[0], {0}, true); },
     .reference = reducing(length, {0}, true), .cases = some + Case{in(3, 0)},
     .bad = {integers, out_of_range([](X x) { return norm(x[0], {2}); })}},
    {.op = "logsumexp", .f = [](X x) { return logsumexp(x[0]); }, .reference = reducing(log_sum_exp), .cases = one,
     .bad = {integers}},
    {.op = "logsumexp", .variant = "first", .f = [](X x) { return logsumexp(x[0], {0}, true); },
     .reference = reducing(log_sum_exp, {0}, true), .cases = some + Case{in(3, 0)},
     .bad = {integers, out_of_range([](X x) { return logsumexp(x[0], {2}); })}},
    {.op = "any", .f = [](X x) { return any(x[0]); }, .reference = reducing(is_any), .cases = one,
     .bad = {out_of_range([](X x) { return any(x[0], {2}); })}, .gradients = Gradients::none},
    {.op = "any", .variant = "last", .f = [](X x) { return any(x[0], {-1}); }, .reference = reducing(is_any, {-1}),
     .cases = {{in(3, 0)}, {in(6, 2).examples()}, {in(5, 2).boolean()}, {in(2, 7, 2).boolean().transposed()},
               {in(6, 3).pixels().narrowed()}, {in(9, 2).examples().spaced()}},
     .gradients = Gradients::none, .large = {in(3000, 2).boolean()}},
    {.op = "all", .f = [](X x) { return all(x[0]); }, .reference = reducing(is_all), .cases = one,
     .bad = {out_of_range([](X x) { return all(x[0], {2}); })}, .gradients = Gradients::none},
    {.op = "all", .variant = "first", .f = [](X x) { return all(x[0], {0}, true); },
     .reference = reducing(is_all, {0}, true),
     .cases = {{in(0, 3)}, {in(2, 6).examples()}, {in(2, 5).boolean()}, {in(2, 7, 2).boolean().transposed()},
               {in(3, 6).pixels().narrowed()}, {in(2, 9).examples().spaced()}},
     .gradients = Gradients::none, .large = {in(2, 3000).boolean()}},
    {.op = "max", .f = [](X x) { return max(x[0]); }, .reference = reducing(highest), .cases = some + Case{in(1, 1)},
     .draw = Draw::distinct, .bad = {bad<ShapeError>("nothing to choose from in f64(0, 3)", {in(0, 3)})},
     .has_empty_case = false},
    {.op = "max", .variant = "last", .f = [](X x) { return max(x[0], {-1}); }, .reference = reducing(highest, {-1}),
     .cases = some + Case{in(0, 3)}, .draw = Draw::distinct,
     .bad = {bad<ShapeError>("nothing to choose from in f64(3, 0)", {in(3, 0)})}},
    {.op = "min", .f = [](X x) { return min(x[0]); }, .reference = reducing(lowest), .cases = some + Case{in(1, 1)},
     .draw = Draw::distinct, .bad = {bad<ShapeError>("nothing to choose from in f64(0, 3)", {in(0, 3)})},
     .has_empty_case = false},
    {.op = "min", .variant = "first", .f = [](X x) { return min(x[0], {0}, true); },
     .reference = reducing(lowest, {0}, true), .cases = some + Case{in(3, 0)}, .draw = Draw::distinct,
     .bad = {bad<ShapeError>("nothing to choose from in f64(0, 3)", {in(0, 3)})}},
    {.op = "argmax", .f = [](X x) { return argmax(x[0]); }, .reference = reducing(place_of_highest),
     .cases = some + Case{in(1, 1)}, .draw = Draw::distinct,
     .bad = {bad<ShapeError>("nothing to choose from in f64(0, 3)", {in(0, 3)})}, .gradients = Gradients::none,
     .has_empty_case = false},
    {.op = "argmax", .variant = "last", .f = [](X x) { return argmax(x[0], -1); },
     .reference = reducing(place_of_highest, {-1}), .cases = some + Case{in(0, 3)}, .draw = Draw::distinct,
     .bad = {bad<ShapeError>("nothing to choose from in dim -1 of f64(3, 0)", {in(3, 0)})},
     .gradients = Gradients::none},
    {.op = "argmin", .f = [](X x) { return argmin(x[0]); }, .reference = reducing(place_of_lowest),
     .cases = some + Case{in(1, 1)}, .draw = Draw::distinct,
     .bad = {bad<ShapeError>("nothing to choose from in f64(0, 3)", {in(0, 3)})}, .gradients = Gradients::none,
     .has_empty_case = false},
    {.op = "argmin", .variant = "first", .f = [](X x) { return argmin(x[0], 0, true); },
     .reference = reducing(place_of_lowest, {0}, true), .cases = some + Case{in(3, 0)}, .draw = Draw::distinct,
     .bad = {bad<ShapeError>("nothing to choose from in dim 0 of f64(0, 3)", {in(0, 3)})},
     .gradients = Gradients::none},
    {.op = "max_with_indices", .f = [](X x) { return max_with_indices(x[0], -1).values; },
     .reference = reducing(highest, {-1}), .cases = some + Case{in(0, 3)}, .draw = Draw::distinct,
     .bad = {bad<ShapeError>("nothing to choose from in dim -1 of f64(3, 0)", {in(3, 0)}),
             out_of_range([](X x) { return max_with_indices(x[0], 2).values; })}},
    {.op = "max_with_indices", .variant = "indices", .f = [](X x) { return max_with_indices(x[0], 0, true).indices; },
     .reference = reducing(place_of_highest, {0}, true), .cases = some + Case{in(3, 0)}, .draw = Draw::distinct,
     .gradients = Gradients::none},
    {.op = "min_with_indices", .f = [](X x) { return min_with_indices(x[0], 0, true).values; },
     .reference = reducing(lowest, {0}, true), .cases = some + Case{in(3, 0)}, .draw = Draw::distinct,
     .bad = {bad<ShapeError>("nothing to choose from in dim 0 of f64(0, 3)", {in(0, 3)}),
             out_of_range([](X x) { return min_with_indices(x[0], 2).values; })}},
    {.op = "min_with_indices", .variant = "indices", .f = [](X x) { return min_with_indices(x[0], -1).indices; },
     .reference = reducing(place_of_lowest, {-1}), .cases = some + Case{in(0, 3)}, .draw = Draw::distinct,
     .gradients = Gradients::none},
    {.op = "sum_to",
     .f =
         [](X x) {
           return sum_to(x[0], {1, x[0].defined() ? x[0].size(-1) : 1});
         },
     .reference =
         [](A x) {
           Array y(Shape{1, x[0].size(-1)});
           for_each_index(x[0].shape, [&](const Dims& at) { y({0, at.back()}) += x[0](at); });
           return y;
         },
     .cases = matrices,
     .bad = {bad<ShapeError>("is no broadcast of (2,)", {in(2, 3)},
                             [](X x) { return sum_to(x[0], {2}); })}},
  };
}
// clang-format on

}  // namespace bytetape::test
