#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {

static const Function fill = [](X x) { return fill_(x[0], 2.5); };

// A table: what belongs together stays on a line.
// clang-format off
std::vector<OpRow> copy_rows() {
  return {
    {.op = "clone", .f = of(clone), .reference = each(same), .cases = one},
    {.op = "contiguous", .f = of(contiguous), .reference = each(same), .cases = one},
    {.op = "channels_last", .f = of(channels_last), .reference = each(same), .cases = images,
     .bad = {bad<ShapeError>("expected (n, c, h, w), got f64(2, 3)", {in(2, 3)})}, .large = {in(4, 8, 48, 48)}},
    {.op = "to", .variant = "f64", .f = [](X x) { return to(x[0], DType::f64); }, .reference = each(same),
     .cases = one},
    {.op = "copy_", .f = in_place(copy_), .reference = each([](double, double b) { return b; }), .cases = into_first,
     .bad = bad_targets(of(copy_)) +
            std::vector{bad<ShapeError>("to broadcast to the shape of a, f64(2,)", {in(2), in(3)}),
                        bad<ShapeError>("to broadcast to the shape of a", {in(2), in(3, 2)}),
                        bad<ValueError>("the second input is an undefined tensor", {in(2), undefined})}},
    {.op = "fill_", .f = in_place(fill), .reference = each([](double) { return 2.5; }), .cases = one,
     .bad = bad_targets(fill) + std::vector{no_such_integer}},
    {.op = "zero_", .f = in_place(zero_), .reference = each([](double) { return 0.0; }), .cases = one,
     .bad = bad_targets(of(zero_))},
  };
}
// clang-format on

}  // namespace bytetape::test
