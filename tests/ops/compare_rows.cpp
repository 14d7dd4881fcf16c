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
                             {in(2).boolean(), in(3), in(3)})},
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
