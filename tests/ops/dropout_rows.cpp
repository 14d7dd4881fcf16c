#include "tests/ops/families.h"

namespace bytetape::test {

static BadInput no_probability(double p, const std::string& text) {
  return bad<ValueError>("p must be in [0, 1], got " + text, {in(3)}, [p](X x) { return dropout(x[0], p); });
}

// A table: what belongs together stays on a line.
// clang-format off
std::vector<OpRow> dropout_rows() {
  return {
    {.op = "dropout",
     .f =
         [](X x) {
           manual_seed(11);
           return dropout(x[0], 0.4);
         },
     .reference = [](A x) { return ref::dropout(x[0], 0.4, 11); }, .cases = one,
     .bad = {integers, no_probability(1.5, "1.5"), no_probability(-0.1, "-0.1"), no_probability(NAN, "nan")}},
    {.op = "dropout", .variant = "row_major",
     .f =
         [](X x) {
           manual_seed(11);
           return detail::row_major_dropout(x[0], 0.4);
         },
     .reference = [](A x) { return ref::dropout(x[0], 0.4, 11); },
     .cases = {{in(2, 8, 4, 12).channels_last()}, {in(3, 9, 5, 7).channels_last()}, {in(2, 1, 3, 8).channels_last()},
               {in(0, 9, 5, 8).channels_last()}, {in(2, 16, 9, 8)}, {in(9, 12).transposed()}, {in(4, 9).narrowed()}},
     .bad = {integers}, .large = {in(4, 72, 33, 36).channels_last()}},
    {.op = "dropout", .variant = "evaluating", .f = [](X x) { return dropout(x[0], 0.4, false); },
     .reference = each(same), .cases = one, .bad = {integers}},
  };
}
// clang-format on

}  // namespace bytetape::test
