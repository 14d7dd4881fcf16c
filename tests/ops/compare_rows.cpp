#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {
namespace {

OpRow comparison(const std::string& op, Tensor (*f)(const Operand&, const Operand&),
                 double (*expected)(double, double)) {
  return {op, "", of(f), each(expected), two, Draw::distinct, bad_comparison, Gradients::none, 1, true, large_two};
}

OpRow comparison(const std::string& op, Tensor (*f)(const Operand&, const Operand&), double (*expected)(double)) {
  return {
      op,   "scalar", [f](X x) { return f(x[0], 0.25); }, each(expected), one, Draw::distinct, {}, Gradients::none, 1,
      true, large_one};
}

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
             bad<ShapeError>(" and f64(3,) on ",
                             {in(2).boolean(), in(3), in(3)})},
     .large = {in(300, 401).boolean(), in(401), in(300, 401)}},
  };
}
// clang-format on

}  // namespace bytetape::test
