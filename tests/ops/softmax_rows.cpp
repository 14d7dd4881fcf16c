#include "tests/ops/families.h"
#include "tests/ops/op_list.h"

namespace bytetape::test {

// A table: what belongs together stays on a line.
// clang-format off
std::vector<OpRow> softmax_rows() {
  return {
    {.op = "softmax", .variant = "last", .f = [](X x) { return softmax(x[0], -1); },
     .reference = [](A x) { return exponential(ref::log_softmax(x[0], -1)); }, .cases = one,
     .bad = {integers, out_of_range([](X x) { return softmax(x[0], 2); })}},
    {.op = "softmax", .variant = "first", .f = [](X x) { return softmax(x[0], 0); },
     .reference = [](A x) { return exponential(ref::log_softmax(x[0], 0)); }, .cases = one, .bad = {integers}},
    {.op = "softmax", .variant = "second", .f = [](X x) { return softmax(x[0], 1); },
     .reference = [](A x) { return exponential(ref::log_softmax(x[0], 1)); }, .cases = matrices,
     .large = {in(40, 50, 60)}},
    {.op = "log_softmax", .variant = "last", .f = [](X x) { return log_softmax(x[0], -1); },
     .reference = [](A x) { return ref::log_softmax(x[0], -1); }, .cases = one,
     .bad = {integers, out_of_range([](X x) { return log_softmax(x[0], 2); })}},
    {.op = "log_softmax", .variant = "first", .f = [](X x) { return log_softmax(x[0], 0); },
     .reference = [](A x) { return ref::log_softmax(x[0], 0); }, .cases = one, .bad = {integers}},
    {.op = "log_softmax", .variant = "second", .f = [](X x) { return log_softmax(x[0], 1); },
     .reference = [](A x) { return ref::log_softmax(x[0], 1); }, .cases = matrices, .large = {in(40, 50, 60)}},
  };
}
// clang-format on

}  // namespace bytetape::test
