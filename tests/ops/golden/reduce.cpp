#include "bytetape/autograd/ops.h"
#include "tests/ops/golden/groups.h"

namespace bytetape::test {

GoldenOps reduce_ops() {
  const auto over = [](Tensor (*f)(const Tensor&, const Dims&, bool)) {
    return [f](A a, X x) { return f(x[0], a.dims("dims"), a.flag("keepdim")); };
  };
  return {
      {"logsumexp", over(logsumexp)},
      {"cumsum", [](A a, X x) { return cumsum(x[0], a.integer("dim")); }},
      {"any", over(any)},
      {"all", over(all)},
      {"prod", over(prod)},
  };
}

}  // namespace bytetape::test
