// The list of ops: adding one takes one row of the table below.
#include "tests/ops/op_list.h"

#include "tests/ops/families.h"
#include "tests/ops/layer_rows.h"

namespace bytetape::test {
namespace {

OpRow in_place_of(const std::string& op, Tensor& (*f)(Tensor&), double (*expected)(double), Draw draw) {
  const bool any_number = op == "abs_" || op == "neg_";
  return {op, "",   in_place(f), each(expected), one, draw, {any_number ? bools : integers}, Gradients::twice,
          1,  true, large_one};
}

OpRow comparison(const std::string& op, Tensor (*f)(const Tensor&, const Tensor&), double (*expected)(double, double)) {
  return {op, "", of(f), each(expected), two, Draw::distinct, bad_comparison, Gradients::none, 1, true, large_two};
}

OpRow comparison(const std::string& op, Tensor (*f)(const Tensor&, Scalar), double (*expected)(double)) {
  return {
      op,   "scalar", [f](X x) { return f(x[0], 0.25); }, each(expected), one, Draw::distinct, {}, Gradients::none, 1,
      true, large_one};
}

Conv2dParams geometry(std::int64_t stride, std::int64_t padding, std::int64_t dilation, std::int64_t groups) {
  return {{stride, stride}, {padding, padding}, {dilation, dilation}, groups};
}

// A table: what belongs together stays on a line.
// clang-format off
std::vector<OpRow> rows() {
  return {
      // ---- arithmetic
      {.op = "add", .f = of(add), .reference = each([](double a, double b) { return a + b; }), .cases = two,
       .bad = bad_pairs},
      {.op = "add", .variant = "scalar", .f = [](X x) { return x[0] + 1.5; },
       .reference = each([](double v) { return v + 1.5; }), .cases = one, .bad = bad_with_number},
      {.op = "sub", .f = of(sub), .reference = each([](double a, double b) { return a - b; }), .cases = two,
       .bad = bad_pairs},
      {.op = "sub", .variant = "scalar", .f = [](X x) { return x[0] - 1.5; },
       .reference = each([](double v) { return v - 1.5; }), .cases = one, .bad = bad_with_number},
      {.op = "sub", .variant = "from_scalar", .f = [](X x) { return 1.5 - x[0]; },
       .reference = each([](double v) { return 1.5 - v; }), .cases = one, .bad = bad_with_number},
      {.op = "mul", .f = of(mul), .reference = each([](double a, double b) { return a * b; }), .cases = two,
       .bad = bad_pairs},
      {.op = "mul", .variant = "scalar", .f = [](X x) { return x[0] * -1.5; },
       .reference = each([](double v) { return v * -1.5; }), .cases = one, .bad = {bools}},
      {.op = "mul", .variant = "with_itself", .f = [](X x) { return x[0] * x[0]; },
       .reference = each([](double v) { return v * v; }), .cases = one, .bad = {bools}},
      {.op = "div", .f = of(div), .reference = each([](double a, double b) { return a / b; }), .cases = two,
       .draw = Draw::positive, .bad = bad_pairs},
      {.op = "div", .variant = "scalar", .f = [](X x) { return x[0] / 1.5; },
       .reference = each([](double v) { return v / 1.5; }), .cases = one, .bad = bad_with_number},
      {.op = "div", .variant = "of_scalar", .f = [](X x) { return 1.5 / x[0]; },
       .reference = each([](double v) { return 1.5 / v; }), .cases = one, .draw = Draw::positive,
       .bad = bad_with_number},
      {.op = "pow", .f = of(pow), .reference = each(std::pow), .cases = two, .draw = Draw::positive, .bad = bad_pairs},
      {.op = "pow", .variant = "cube", .f = [](X x) { return pow(x[0], 3); },
       .reference = each([](double v) { return v * v * v; }), .cases = one, .bad = {bools}},
      {.op = "pow", .variant = "root", .f = [](X x) { return pow(x[0], 0.5); }, .reference = each(std::sqrt),
       .cases = one, .draw = Draw::positive, .bad = {bools}},
      {.op = "pow", .variant = "zero", .f = [](X x) { return pow(x[0], 0); },
       .reference = each([](double) { return 1.0; }), .cases = one, .bad = {bools}},
      {.op = "neg", .f = of(neg), .reference = each([](double v) { return -v; }), .cases = one, .bad = {bools}},
      {.op = "add_", .f = in_place(add_), .reference = each([](double a, double b) { return a + b; }),
       .cases = into_first, .bad = bad_pairs_in_place},
      {.op = "add_", .variant = "scalar", .f = in_place(add_, 1.5), .reference = each([](double v) { return v + 1.5; }),
       .cases = one, .bad = bad_with_number},
      {.op = "sub_", .f = in_place(sub_), .reference = each([](double a, double b) { return a - b; }),
       .cases = into_first, .bad = bad_pairs_in_place},
      {.op = "sub_", .variant = "scalar", .f = in_place(sub_, 1.5), .reference = each([](double v) { return v - 1.5; }),
       .cases = one, .bad = bad_with_number},
      {.op = "mul_", .f = in_place(mul_), .reference = each([](double a, double b) { return a * b; }),
       .cases = into_first, .bad = bad_pairs_in_place},
      {.op = "mul_", .variant = "scalar", .f = in_place(mul_, 1.5), .reference = each([](double v) { return v * 1.5; }),
       .cases = one, .bad = bad_with_number},
      {.op = "div_", .f = in_place(div_), .reference = each([](double a, double b) { return a / b; }),
       .cases = into_first, .draw = Draw::positive, .bad = bad_pairs_in_place},
      {.op = "div_", .variant = "scalar", .f = in_place(div_, 1.5), .reference = each([](double v) { return v / 1.5; }),
       .cases = one, .bad = bad_with_number},
      {.op = "pow_", .f = in_place(pow_, 3), .reference = each([](double v) { return v * v * v; }), .cases = one,
       .bad = {bools}},
      in_place_of("neg_", neg_, [](double v) { return -v; }, Draw::normal),

      // ---- pointwise
      {.op = "exp", .f = of(exp), .reference = each(std::exp), .cases = one, .bad = {integers}},
      {.op = "log", .f = of(log), .reference = each(std::log), .cases = one, .draw = Draw::positive, .bad = {integers}},
      {.op = "sqrt", .f = of(sqrt), .reference = each(std::sqrt), .cases = one, .draw = Draw::positive,
       .bad = {integers}},
      {.op = "rsqrt", .f = of(rsqrt), .reference = each([](double v) { return 1 / std::sqrt(v); }), .cases = one,
       .draw = Draw::positive, .bad = {integers}},
      {.op = "tanh", .f = of(tanh), .reference = each(std::tanh), .cases = one, .bad = {integers}},
      {.op = "sigmoid", .f = of(sigmoid), .reference = each(sigmoid_of), .cases = one, .bad = {integers}},
      {.op = "relu", .f = of(relu), .reference = each([](double v) { return std::max(v, 0.0); }), .cases = one,
       .draw = Draw::distinct, .bad = {integers}},
      {.op = "gelu", .f = of(gelu), .reference = each(gelu_of), .cases = one, .bad = {integers}},
      {.op = "abs", .f = of(abs), .reference = each(std::abs), .cases = one, .draw = Draw::distinct, .bad = {bools}},
      {.op = "sign", .f = of(sign), .reference = each(sign_of), .cases = one, .draw = Draw::distinct,
       .bad = {integers}},
      {.op = "clamp", .f = [](X x) { return clamp(x[0], -1, 1); },
       .reference = each([](double v) { return std::clamp(v, -1.0, 1.0); }), .cases = one, .draw = Draw::distinct,
       .bad = {bools,
               bad<ValueError>("expected low <= high, got 2 and 1", {in(3)}, [](X x) { return clamp(x[0], 2, 1); })}},
      in_place_of("exp_", exp_, std::exp, Draw::normal),
      in_place_of("log_", log_, std::log, Draw::positive),
      in_place_of("sqrt_", sqrt_, std::sqrt, Draw::positive),
      in_place_of("rsqrt_", rsqrt_, [](double v) { return 1 / std::sqrt(v); }, Draw::positive),
      in_place_of("tanh_", tanh_, std::tanh, Draw::normal),
      in_place_of("sigmoid_", sigmoid_, sigmoid_of, Draw::normal),
      in_place_of("relu_", relu_, [](double v) { return std::max(v, 0.0); }, Draw::distinct),
      in_place_of("abs_", abs_, std::abs, Draw::distinct),
      {.op = "clamp_",
       .f =
           [](X x) {
             Tensor y = copy_of(x[0]);
             return clamp_(y, -1, 1);
           },
       .reference = each([](double v) { return std::clamp(v, -1.0, 1.0); }), .cases = one, .draw = Draw::distinct,
       .bad = {bools}},
      {.op = "dropout",
       .f =
           [](X x) {
             manual_seed(11);
             return dropout(x[0], 0.4);
           },
       .reference = [](A x) { return ref::dropout(x[0], 0.4, 11); }, .cases = one,
       .bad = {integers, bad<ValueError>("expected a probability, got p = 1.5", {in(3)},
                                         [](X x) { return dropout(x[0], 1.5); })}},
      {.op = "dropout", .variant = "evaluating", .f = [](X x) { return dropout(x[0], 0.4, false); },
       .reference = each(same), .cases = one, .bad = {integers}},

      // ---- comparisons and choice
      comparison("eq", eq, [](double a, double b) { return double(a == b); }),
      comparison("ne", ne, [](double a, double b) { return double(a != b); }),
      comparison("lt", lt, [](double a, double b) { return double(a < b); }),
      comparison("le", le, [](double a, double b) { return double(a <= b); }),
      comparison("gt", gt, [](double a, double b) { return double(a > b); }),
      comparison("ge", ge, [](double a, double b) { return double(a >= b); }),
      comparison("eq", eq, [](double v) { return double(v == 0.25); }),
      comparison("ne", ne, [](double v) { return double(v != 0.25); }),
      comparison("lt", lt, [](double v) { return double(v < 0.25); }),
      comparison("le", le, [](double v) { return double(v <= 0.25); }),
      comparison("gt", gt, [](double v) { return double(v > 0.25); }),
      comparison("ge", ge, [](double v) { return double(v >= 0.25); }),
      {.op = "where", .f = [](X x) { return where(x[0], x[1], x[2]); },
       .reference = each([](double c, double a, double b) { return c != 0 ? a : b; }),
       .cases = {{in().boolean(), in(), in()},
                 {in(3, 4).boolean(), in(3, 4), in(3, 4)},
                 {in(4).boolean(), in(3, 1), in()},
                 {in(2, 1, 3).boolean(), in(4, 1), in(4, 3)},
                 {in(0, 3).boolean(), in(3), in(0, 3)},
                 {in(4, 3).boolean().transposed(), in(4, 3).transposed(), in(4, 3)},
                 {in(3, 4).boolean().expanded(), in(3, 4).narrowed(), in(4).spaced()}},
       .bad = {bad<DTypeError>("bool", {in(3), in(3), in(3)}),
               bad<DTypeError>("different dtypes", {in(3).boolean(), in(3), in(3).as(DType::f32)}),
               bad<DeviceError>("on different devices", {in(3).boolean(), in(3), in(3).elsewhere()}),
               bad<ShapeError>("do not broadcast", {in(2).boolean(), in(3), in(3)})},
       .large = {in(300, 401).boolean(), in(401), in(300, 401)}},

      // ---- reductions
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
      {.op = "mean", .f = [](X x) { return mean(x[0]); }, .reference = reducing(average), .cases = some,
       .bad = {integers}, .has_empty_case = false},
      {.op = "mean", .variant = "first", .f = [](X x) { return mean(x[0], {0}, true); },
       .reference = reducing(average, {0}, true), .cases = some + Case{in(3, 0)},
       .bad = {integers, out_of_range([](X x) { return mean(x[0], {2}); })}},
      {.op = "var", .f = [](X x) { return var(x[0]); }, .reference = reducing(unbiased),
       .cases = Cases(some.begin() + 1, some.end()), .bad = {integers}, .has_empty_case = false},
      {.op = "var", .variant = "biased_last", .f = [](X x) { return var(x[0], {-1}, 0, true); },
       .reference = reducing(variance, {-1}, true), .cases = some + Case{in(0, 3)},
       .bad = {integers, out_of_range([](X x) { return var(x[0], {2}); })}},
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
      {.op = "sum_to",
       .f =
           [](X x) {
             return sum_to(x[0], {1, x[0].defined() ? x[0].size(-1) : 1});
           },
       .reference =
           [](A x) {
             Array y({1, x[0].size(-1)});
             for_each_index(x[0].shape, [&](const Dims& at) { y({0, at.back()}) += x[0](at); });
             return y;
           },
       .cases = matrices,
       .bad = {bad<ShapeError>("shapes (2,) and (2, 3) do not broadcast", {in(2, 3)},
                               [](X x) { return sum_to(x[0], {2}); })}},

      // ---- softmax
      {.op = "softmax", .variant = "last", .f = [](X x) { return softmax(x[0], -1); },
       .reference = [](A x) { return exponential(ref::log_softmax(x[0], -1)); }, .cases = one,
       .bad = {integers, out_of_range([](X x) { return softmax(x[0], 2); })}},
      {.op = "softmax", .variant = "first", .f = [](X x) { return softmax(x[0], 0); },
       .reference = [](A x) { return exponential(ref::log_softmax(x[0], 0)); }, .cases = one, .bad = {integers}},
      {.op = "log_softmax", .variant = "last", .f = [](X x) { return log_softmax(x[0], -1); },
       .reference = [](A x) { return ref::log_softmax(x[0], -1); }, .cases = one,
       .bad = {integers, out_of_range([](X x) { return log_softmax(x[0], 2); })}},
      {.op = "log_softmax", .variant = "first", .f = [](X x) { return log_softmax(x[0], 0); },
       .reference = [](A x) { return ref::log_softmax(x[0], 0); }, .cases = one, .bad = {integers}},

      // ---- views
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
      {.op = "expand",
       .f =
           [](X x) {
             return expand(x[0], {3, 2, -1});
           },
       .reference =
           [](A x) {
             Array y({3, 2, x[0].size(-1)});
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

      // ---- copies
      {.op = "clone", .f = of(clone), .reference = each(same), .cases = one},
      {.op = "contiguous", .f = of(contiguous), .reference = each(same), .cases = one},
      {.op = "channels_last", .f = of(channels_last), .reference = each(same), .cases = images,
       .bad = {bad<ShapeError>("expected (n, c, h, w), got f64(2, 3)", {in(2, 3)})}, .large = {in(4, 8, 48, 48)}},
      {.op = "to", .variant = "f64", .f = [](X x) { return to(x[0], DType::f64); }, .reference = each(same),
       .cases = one},
      {.op = "copy_", .f = in_place(copy_), .reference = each([](double, double b) { return b; }), .cases = into_first,
       .bad = {bad<ShapeError>("do not broadcast", {in(2), in(3)}),
               bad<ShapeError>("does not fit into", {in(2), in(3, 2)}),
               bad<ValueError>("the second input is an undefined tensor", {in(2), undefined})}},
      {.op = "fill_", .f = in_place(fill_, 2.5), .reference = each([](double) { return 2.5; }), .cases = one},
      {.op = "zero_", .f = in_place(zero_), .reference = each([](double) { return 0.0; }), .cases = one},

      // ---- joining
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

      // ---- linear algebra
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
               bad<ShapeError>("do not broadcast", {in(2, 2, 3), in(3, 3, 2)}),
               bad<ShapeError>("at least one dimension", {in(), in(3)}),
               bad<DTypeError>("floating", {in(2, 3).as(DType::i64), in(3, 2).as(DType::i64)}),
               bad<DTypeError>("different dtypes", {in(2, 3), in(3, 2).as(DType::f32)}),
               bad<DeviceError>("different devices", {in(2, 3), in(3, 2).elsewhere()})},
       .tolerance = 2, .large = {in(200, 150), in(150, 220)}},
      {.op = "linear", .f = [](X x) { return linear(x[0], x[1], if_any(x, 2)); },
       .reference =
           [](A x) {
             Array y = ref::matmul(x[0], ref::transpose(x[1]));
             for_each_index(y.shape, [&](const Dims& at) { y(at) += x[2]({at.back()}); });
             return y;
           },
       .cases = {{in(5, 3), in(4, 3), in(4)},
                 {in(3), in(4, 3), in(4)},
                 {in(2, 5, 3), in(1, 3), in(1)},
                 {in(0, 3), in(4, 3), in(4)},
                 {in(2, 0), in(3, 0), in(3)},
                 {in(5, 3).transposed(), in(4, 3).transposed(), in(4)},
                 {in(3, 3).expanded(), in(4, 3).narrowed(), in(4).spaced()},
                 {in(2, 3, 2).transposed(), in(2, 2), in(2)}},
       .bad = {bad<ShapeError>("expected an input (..., in) and a weight (out, in)", {in(5, 3), in(4, 2), in(4)}),
               bad<ShapeError>("expected a bias (4,)", {in(5, 3), in(4, 3), in(3)}),
               bad<DTypeError>("different dtypes", {in(5, 3), in(4, 3).as(DType::f32), in(4)}),
               bad<DTypeError>("different dtypes", {in(5, 3), in(4, 3), in(4).as(DType::f32)}),
               bad<DeviceError>("different devices", {in(5, 3), in(4, 3).elsewhere(), in(4)})},
       .tolerance = 2, .large = {in(200, 150), in(220, 150), in(220)}},
      {.op = "linear", .variant = "no_bias", .f = [](X x) { return linear(x[0], x[1]); },
       .reference = [](A x) { return ref::matmul(x[0], ref::transpose(x[1])); },
       .cases = {{in(5, 3), in(4, 3)},
                 {in(3), in(4, 3)},
                 {in(2, 5, 3), in(1, 3)},
                 {in(0, 3), in(4, 3)},
                 {in(5, 3).transposed(), in(4, 3).transposed()},
                 {in(3, 3).expanded(), in(4, 3).narrowed()}},
       .tolerance = 2, .large = {in(200, 150), in(220, 150)}},

      // ---- convolution
      conv_row("", {}),
      conv_row("same", geometry(1, 1, 1, 1)),
      conv_row("strided", geometry(2, 1, 1, 1)),
      conv_row("dilated", geometry(1, 2, 2, 1)),
      conv_row("grouped", geometry(2, 1, 1, 3)),
      conv_row("pointwise", {}, 1),
      conv_row("oblong", {.stride = {1, 2}, .padding = {0, 2}, .dilation = {2, 1}}),
      conv_row("no_bias", geometry(1, 1, 1, 1), 3, false),

      // ---- pooling, normalisation, losses
      pool_row("", {}),
      pool_row("overlapping", {{3, 3}, {2, 2}, {1, 1}}),
      pool_row("oblong", {{1, 3}, {2, 1}, {0, 1}}),
      norm_row(
          "training", true,
          {{in(4, 3), in(3), in(3)},
           {in(2, 3, 4, 5), in(3), in(3)},
           {in(3, 2, 2, 2).channels_last(), in(2), in(2)},
           {in(5, 3).transposed(), in(3).spaced(), in(3)},
           {in(3, 4).narrowed(), in(4), in(4).expanded()},
           {in(4, 0), in(0), in(0)},
           {in(2, 1, 3, 2), in(1), in(1)}},
          {bad<ValueError>("training needs more than one value a channel, got f64(1, 3)", {in(1, 3), in(3), in(3)}),
           bad<ShapeError>("weight must have shape (3,), got f64(4,)", {in(2, 3), in(4), in(3)}),
           bad<DeviceError>("bias is on another device than x", {in(2, 3), in(3), in(3).elsewhere()})}),
      norm_row("evaluating", false,
               {{in(4, 3), in(3), in(3)},
                {in(2, 3, 4, 5), in(3), in(3)},
                {in(3, 2, 2, 2).channels_last(), in(2), in(2)},
                {in(5, 3).transposed(), in(3).spaced(), in(3)},
                {in(0, 3), in(3), in(3)},
                {in(1, 2), in(2), in(2)}},
               {bad<ValueError>("evaluation needs running_mean and running_var", {in(4, 3), in(3), in(3)},
                                [](X x) { return batch_norm(x[0], x[1], x[2], {}, {}, false); })}),
      norm_row("no_affine", true,
               {{in(4, 3)},
                {in(2, 3, 4, 5)},
                {in(3, 2, 2, 2).channels_last()},
                {in(5, 3).transposed()},
                {in(4, 0)},
                {in(3, 4).narrowed()}},
               {}),
      loss_row("", {}),
      loss_row("sum", {.reduction = Reduction::sum}),
      loss_row("none", {.reduction = Reduction::none}),
      loss_row("smoothed", {.label_smoothing = 0.2}),
  };
}
// clang-format on

}  // namespace

const std::vector<OpRow>& op_list() {
  static const std::vector<OpRow> list = rows();
  return list;
}

}  // namespace bytetape::test
