#include "tests/ops/families.h"

namespace bytetape::test {

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
     .bad = {integers, bad<ValueError>("expected a probability, got p = 1.5", {in(3)},
                                       [](X x) { return dropout(x[0], 1.5); })}},
    {.op = "dropout", .variant = "evaluating", .f = [](X x) { return dropout(x[0], 0.4, false); },
     .reference = each(same), .cases = one, .bad = {integers}},
  };
}
// clang-format on

}  // namespace bytetape::test
