#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {
namespace {

using Compare = Tensor (*)(const Operand&, const Operand&);

OpRow comparison(const std::string& op, Compare f, double (*expected)(double, double)) {
  return {op, "", of(f), each(expected), two, Draw::distinct, bad_comparison(f), Gradients::none, 1, true, large_two};
}

OpRow with_number(const std::string& op, const std::string& variant, const Function& f, double (*expected)(double)) {
  return {op, variant, f, each(expected), one, Draw::distinct, {no_such_integer}, Gradients::none, 1, true, large_one};
}
OpRow comparison(const std::string& op, Compare f, double (*expected)(double)) {
  return with_number(
      op, "scalar", [f](X x) { return f(x[0], 0.25); }, expected);
}
OpRow of_number(const std::string& op, Compare f, double (*expected)(double)) {
  return with_number(
      op, "of_scalar", [f](X x) { return f(0.25, x[0]); }, expected);
}

OpRow logic(const std::string& op, Compare f, double (*expected)(double, double)) {
  OpRow row = comparison(op, f, expected);
  row.draw = Draw::special;
  row.cases = {{in(), in()},
               {in(3, 4).examples(), in(3, 4).examples()},
               {in(3, 4).boolean(), in(4).boolean()},
               {in(3, 1).pixels(), in(1, 4).pixels()},
               {in(0, 3), in(3)},
               {in(2, 20), in(20)},
               {in(4, 3).transposed().examples(), in(4, 3).examples()},
               {in(3, 4).expanded().boolean(), in(3, 4).narrowed().boolean()},
               {in(5).spaced(), in(2, 1)}};
  row.large = {in(300, 401).examples(), in(401).examples()};
  return row;
}
OpRow classes(const std::string& op, Tensor (*f)(const Tensor&), double (*expected)(double)) {
  return {.op = op,
          .f = of(f),
          .reference = each(expected),
          .cases = one,
          .draw = Draw::special,
          .gradients = Gradients::none};
}

const Cases maskable{{in(), in().boolean()},
                     {in(3, 4), in(3, 4).boolean()},
                     {in(3, 4), in(4).boolean()},
                     {in(2, 3, 4), in(3, 1).boolean()},
                     {in(0, 3), in(3).boolean()},
                     {in(4, 3).transposed(), in(4, 3).boolean().transposed()},
                     {in(3, 4).narrowed(), in(3, 4).boolean().expanded()},
                     {in(5).spaced(), in().boolean()},
                     {in(2, 3, 2, 2).channels_last(), in(3, 1, 1).boolean()}};
const Case maskable_large{in(300, 401), in(401).boolean()};
const Function halve = [](X x) { return masked_fill(x[0], x[1], 0.5); };
const Function halve_ = [](X x) { return masked_fill_(x[0], x[1], 0.5); };
std::vector<BadInput> bad_masks(const Function& f) {
  return {
      bad<DTypeError>("the mask must be bool, got f64(3,)", {in(3), in(3)}, f),
      bad<DTypeError>("i64 cannot represent the number 0.5", {in(3).as(DType::i64), in(3).boolean()}, f),
      bad<DeviceError>("on different devices", {in(3), in(3).boolean().elsewhere()}, f),
      bad<ValueError>("the second input is an undefined tensor", {in(3), undefined}, f),
      bad<ShapeError>("expected a mask that broadcasts to the shape of x, f64(3,)", {in(3), in(2).boolean()}, f),
      bad<ShapeError>("expected a mask that broadcasts to the shape of x, f64(3,)", {in(3), in(2, 3).boolean()}, f)};
}
/// x with the value x[2], else `value`, where the mask x[1] is true.
Reference with_value(double value) {
  return [value](A x) {
    Array y = x[0];
    for_each_index(y.shape, [&](const Dims& at) {
      if (x[1](at) != 0) y(at) = x.size() > 2 ? x[2].values[0] : value;
    });
    return y;
  };
}
/// The row of f, which fills an x without gradient, of the dtype of `draw`, with `value`.
OpRow filled(const std::string& op, const std::string& variant, Draw draw, const Function& f, double value) {
  OpRow row{.op = op, .variant = variant, .f = f, .reference = with_value(value), .cases = maskable};
  for (Case& c : row.cases) c[0].draw = draw;
  row.gradients = Gradients::none;
  row.large = {in(300, 401), in(401).boolean()};
  row.large[0].draw = draw;
  return row;
}
Cases with_scalar(Cases cases) {
  for (Case& c : cases) c.push_back(in());
  return cases;
}
const BadInput no_scalar =
    bad<ShapeError>("expected a number or a 0-D tensor as the value, got f64(3,)", {in(3), in(3).boolean(), in(3)});

const Cases conditional{{in().boolean(), in()},
                        {in(3, 4).boolean(), in(3, 4)},
                        {in(4).boolean(), in(3, 1)},
                        {in(0, 3).boolean(), in(3)},
                        {in(4, 3).boolean().transposed(), in(4, 3).transposed()},
                        {in(3, 4).boolean().expanded(), in(3, 4).narrowed()}};
const std::vector<BadInput> bad_choice{
    bad<DTypeError>("i64 cannot represent the number 1.5, got i64(3,)", {in(3).boolean(), in(3).as(DType::i64)}),
    bad<DTypeError>("the condition must be bool, got f64(3,)", {in(3), in(3)}),
    bad<DeviceError>("on different devices", {in(3).boolean(), in(3).elsewhere()}),
    bad<ShapeError>(" do not broadcast", {in(2).boolean(), in(3)})};

}  // namespace

// A table: what belongs together stays on a line.
// clang-format off
std::vector<OpRow> compare_rows() {
  return {
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
    of_number("eq", eq, [](double v) { return double(0.25 == v); }),
    of_number("ne", ne, [](double v) { return double(0.25 != v); }),
    of_number("lt", lt, [](double v) { return double(0.25 < v); }),
    of_number("le", le, [](double v) { return double(0.25 <= v); }),
    of_number("gt", gt, [](double v) { return double(0.25 > v); }),
    of_number("ge", ge, [](double v) { return double(0.25 >= v); }),
    logic("logical_and", logical_and, [](double a, double b) { return double(a != 0 && b != 0); }),
    logic("logical_or", logical_or, [](double a, double b) { return double(a != 0 || b != 0); }),
    logic("logical_xor", logical_xor, [](double a, double b) { return double((a != 0) != (b != 0)); }),
    {.op = "logical_not", .f = of(logical_not), .reference = each([](double v) { return double(v == 0); }),
     .cases = {{in()}, {in(7).examples()}, {in(0, 3)}, {in(3, 4).boolean().narrowed()}, {in(2, 20)},
               {in(4, 3).pixels().transposed()}},
     .draw = Draw::special, .gradients = Gradients::none, .large = {in(300, 401).examples()}},
    classes("isnan", isnan, [](double v) { return double(std::isnan(v)); }),
    classes("isinf", isinf, [](double v) { return double(std::isinf(v)); }),
    classes("isfinite", isfinite, [](double v) { return double(std::isfinite(v)); }),
    // docs/ops.md has the dtypes of an op's first row. Integers cannot be 0.5.
    {.op = "masked_fill", .variant = "tensor", .f = [](X x) { return masked_fill(x[0], x[1], x[2]); },
     .reference = with_value(0.5), .cases = with_scalar(maskable),
     .bad = {no_scalar, bad<DTypeError>("different dtypes", {in(3), in(3).boolean(), in().as(DType::f32)}),
             bad<DeviceError>("on different devices", {in(3), in(3).boolean(), in().elsewhere()}),
             bad<ValueError>("the second input is an undefined tensor", {in(3), in(3).boolean(), undefined})},
     .large = {in(300, 401), in(401).boolean(), in()}},
    {.op = "masked_fill", .f = halve, .reference = with_value(0.5), .cases = maskable, .bad = bad_masks(halve),
     .large = maskable_large},
    filled("masked_fill", "of_integers", Draw::examples, [](X x) { return masked_fill(x[0], x[1], 2); }, 2),
    filled("masked_fill", "of_bool", Draw::boolean, [](X x) { return masked_fill(x[0], x[1], true); }, 1),
    {.op = "masked_fill_", .variant = "tensor",
     .f = in_place([](X x) { return masked_fill_(x[0], x[1], x[2]); }), .reference = with_value(0.5),
     .cases = with_scalar(maskable), .large = {in(300, 401), in(401).boolean(), in()}},
    {.op = "masked_fill_", .f = in_place(halve_), .reference = with_value(0.5), .cases = maskable,
     .bad = bad_masks(halve_) +
            std::vector{bad<AutogradError>("cannot write into a leaf that requires grad", {in(3), in(3).boolean()}, halve_),
                        bad<ValueError>("whose elements share memory", {in(2, 3).expanded(), in(3).boolean()}, halve_)},
     .large = maskable_large},
    filled("masked_fill_", "of_integers", Draw::examples, in_place([](X x) { return masked_fill_(x[0], x[1], 2); }), 2),
    filled("masked_fill_", "of_bool", Draw::boolean, in_place([](X x) { return masked_fill_(x[0], x[1], true); }), 1),
    {.op = "where", .f = [](X x) { return where(x[0], x[1], x[2]); },
     .reference = each([](double c, double a, double b) { return c != 0 ? a : b; }),
     .cases = {{in().boolean(), in(), in()},
               {in(3, 4).boolean(), in(3, 4), in(3, 4)},
               {in(4).boolean(), in(3, 1), in()},
               {in(2, 1, 3).boolean(), in(4, 1), in(4, 3)},
               {in().boolean(), in(2), in(3, 1)},
               {in(0, 3).boolean(), in(3), in(0, 3)},
               {in(4, 3).boolean().transposed(), in(4, 3).transposed(), in(4, 3)},
               {in(3, 4).boolean().expanded(), in(3, 4).narrowed(), in(4).spaced()}},
     .bad = {bad<DTypeError>("bool", {in(3), in(3), in(3)}),
             bad<DTypeError>("different dtypes", {in(3).boolean(), in(3), in(3).as(DType::f32)}),
             bad<DeviceError>("on different devices", {in(3).boolean(), in(3), in(3).elsewhere()}),
             bad<ValueError>("the first input is an undefined tensor", {undefined, in(3), in(3)}),
             bad<ValueError>("expected a tensor among the two values", {in(3).boolean()},
                             [](X x) { return where(x[0], 1, 0); }),
             bad<ShapeError>(" and f64(3,) on ",
                             {in(2).boolean(), in(3), in(3)}),
             bad<ShapeError>(" do not broadcast", {in(3).boolean(), in(2), in(3)}),
             bad<ShapeError>(" do not broadcast", {in(3).boolean(), in(3), in(2)})},
     .large = {in(300, 401).boolean(), in(401), in(300, 401)}},
    {.op = "where", .variant = "scalar_first", .f = [](X x) { return where(x[0], 1.5, x[1]); },
     .reference = each([](double c, double b) { return c != 0 ? 1.5 : b; }), .cases = conditional, .bad = bad_choice,
     .large = {in(300, 401).boolean(), in(401)}},
    {.op = "where", .variant = "scalar_second", .f = [](X x) { return where(x[0], x[1], 1.5); },
     .reference = each([](double c, double a) { return c != 0 ? a : 1.5; }), .cases = conditional, .bad = bad_choice,
     .large = {in(300, 401).boolean(), in(401)}},
  };
}
// clang-format on

}  // namespace bytetape::test
