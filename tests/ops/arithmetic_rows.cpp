#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {

// A table: what belongs together stays on a line.
// clang-format off
std::vector<OpRow> arithmetic_rows() {
  return {
    {.op = "add", .f = of(add), .reference = each([](double a, double b) { return a + b; }), .cases = two,
     .bad = bad_pairs(add)},
    {.op = "add", .variant = "scalar", .f = [](X x) { return x[0] + 1.5; },
     .reference = each([](double v) { return v + 1.5; }), .cases = one, .bad = bad_with_number},
    {.op = "add", .variant = "to_scalar", .f = [](X x) { return 1.5 + x[0]; },
     .reference = each([](double v) { return 1.5 + v; }), .cases = one, .bad = bad_with_number},
    {.op = "sub", .f = of(sub), .reference = each([](double a, double b) { return a - b; }), .cases = two,
     .bad = bad_pairs(sub)},
    {.op = "sub", .variant = "scalar", .f = [](X x) { return x[0] - 1.5; },
     .reference = each([](double v) { return v - 1.5; }), .cases = one, .bad = bad_with_number},
    {.op = "sub", .variant = "from_scalar", .f = [](X x) { return 1.5 - x[0]; },
     .reference = each([](double v) { return 1.5 - v; }), .cases = one, .bad = bad_with_number},
    {.op = "mul", .f = of(mul), .reference = each([](double a, double b) { return a * b; }), .cases = two,
     .bad = bad_pairs(mul)},
    {.op = "mul", .variant = "scalar", .f = [](X x) { return x[0] * -1.5; },
     .reference = each([](double v) { return v * -1.5; }), .cases = one, .bad = bad_with_number},
    {.op = "mul", .variant = "of_scalar", .f = [](X x) { return -1.5 * x[0]; },
     .reference = each([](double v) { return -1.5 * v; }), .cases = one, .bad = bad_with_number},
    {.op = "mul", .variant = "with_itself", .f = [](X x) { return x[0] * x[0]; },
     .reference = each([](double v) { return v * v; }), .cases = one, .bad = {bools}},
    {.op = "div", .f = of(div), .reference = each([](double a, double b) { return a / b; }), .cases = two,
     .draw = Draw::positive, .bad = bad_pairs(div)},
    {.op = "div", .variant = "scalar", .f = [](X x) { return x[0] / 1.5; },
     .reference = each([](double v) { return v / 1.5; }), .cases = one, .bad = bad_with_number},
    {.op = "div", .variant = "of_scalar", .f = [](X x) { return 1.5 / x[0]; },
     .reference = each([](double v) { return 1.5 / v; }), .cases = one, .draw = Draw::positive,
     .bad = bad_with_number},
    {.op = "pow", .f = of(pow), .reference = each(std::pow), .cases = two, .draw = Draw::positive,
     .bad = bad_pairs(pow)},
    {.op = "pow", .variant = "cube", .f = [](X x) { return pow(x[0], 3); },
     .reference = each([](double v) { return v * v * v; }), .cases = one, .bad = {bools}},
    {.op = "pow", .variant = "root", .f = [](X x) { return pow(x[0], 0.5); }, .reference = each(std::sqrt),
     .cases = one, .draw = Draw::positive, .bad = {bools}},
    {.op = "pow", .variant = "zero", .f = [](X x) { return pow(x[0], 0); },
     .reference = each([](double) { return 1.0; }), .cases = one, .bad = {bools}},
    {.op = "pow", .variant = "of_scalar", .f = [](X x) { return pow(2.5, x[0]); },
     .reference = each([](double v) { return std::pow(2.5, v); }), .cases = one, .bad = bad_with_number},
    {.op = "neg", .f = of(neg), .reference = each([](double v) { return -v; }), .cases = one, .bad = {bools}},
    {.op = "add_", .f = in_place(add_), .reference = each([](double a, double b) { return a + b; }),
     .cases = into_first, .bad = bad_pairs(add_)},
    {.op = "add_", .variant = "scalar", .f = in_place(add_, 1.5), .reference = each([](double v) { return v + 1.5; }),
     .cases = one, .bad = bad_with_number},
    {.op = "sub_", .f = in_place(sub_), .reference = each([](double a, double b) { return a - b; }),
     .cases = into_first, .bad = bad_pairs(sub_)},
    {.op = "sub_", .variant = "scalar", .f = in_place(sub_, 1.5), .reference = each([](double v) { return v - 1.5; }),
     .cases = one, .bad = bad_with_number},
    {.op = "mul_", .f = in_place(mul_), .reference = each([](double a, double b) { return a * b; }),
     .cases = into_first, .bad = bad_pairs(mul_)},
    {.op = "mul_", .variant = "scalar", .f = in_place(mul_, 1.5), .reference = each([](double v) { return v * 1.5; }),
     .cases = one, .bad = bad_with_number},
    {.op = "div_", .f = in_place(div_), .reference = each([](double a, double b) { return a / b; }),
     .cases = into_first, .draw = Draw::positive, .bad = bad_pairs(div_)},
    {.op = "div_", .variant = "scalar", .f = in_place(div_, 1.5), .reference = each([](double v) { return v / 1.5; }),
     .cases = one, .bad = bad_with_number},
    {.op = "pow_", .f = in_place(pow_), .reference = each(std::pow), .cases = into_first, .draw = Draw::positive,
     .bad = bad_pairs(pow_)},
    {.op = "pow_", .variant = "cube", .f = in_place(pow_, 3), .reference = each([](double v) { return v * v * v; }),
     .cases = one, .bad = {bools}},
    in_place_of("neg_", neg_, [](double v) { return -v; }, Draw::normal),
  };
}
// clang-format on

}  // namespace bytetape::test
