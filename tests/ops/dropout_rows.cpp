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
    {.op = "dropout", .variant = "evaluating", .f = [](X x) { return dropout(x[0], 0.4, false); },
     .reference = each(same), .cases = one, .bad = {integers}},
  };
}
// clang-format on

}  // namespace bytetape::test
