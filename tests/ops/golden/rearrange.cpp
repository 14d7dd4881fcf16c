#include "bytetape/autograd/ops.h"
#include "tests/ops/golden/groups.h"

namespace bytetape::test {

GoldenOps rearrange_ops() {
  return {
      {"flip", [](A a, X x) { return flip(x[0], a.dims("dims")); }},
      {"roll", [](A a, X x) { return roll(x[0], a.dims("shifts"), a.dims("dims")); }},
      {"repeat", [](A a, X x) { return repeat(x[0], a.dims("repeats")); }},
      {"tril", [](A a, X x) { return tril(x[0], a.integer("diagonal")); }},
      {"triu", [](A a, X x) { return triu(x[0], a.integer("diagonal")); }},
  };
}

}  // namespace bytetape::test
