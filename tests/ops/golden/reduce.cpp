#include "bytetape/autograd/ops.h"
#include "tests/ops/golden/groups.h"

namespace bytetape::test {

GoldenOps reduce_ops() {
  return {
      {"logsumexp", reduced(logsumexp)},
      {"cumsum", [](A a, X x) { return cumsum(x[0], a.integer("dim")); }},
      {"any", reduced(any)},
      {"all", reduced(all)},
      {"prod", reduced(prod)},
  };
}

}  // namespace bytetape::test
