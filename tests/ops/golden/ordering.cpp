#include "bytetape/autograd/ops.h"
#include "tests/ops/golden/groups.h"

namespace bytetape::test {
namespace {

ValuesAndIndices top(A a, X x) {
  return topk(x[0], a.integer("k"), a.integer("dim", -1), a.integer("largest", 1) != 0);
}
GoldenOp argument(Tensor (*flat)(const Tensor&), Tensor (*along)(const Tensor&, std::int64_t, bool)) {
  return [=](A a, X x) { return a.has("dim") ? along(x[0], a.integer("dim"), a.flag("keepdim")) : flat(x[0]); };
}
GoldenOp with_indices(ValuesAndIndices (*f)(const Tensor&, std::int64_t, bool)) {
  return [f](A a, X x) { return f(x[0], a.integer("dim"), a.flag("keepdim")); };
}

}  // namespace

GoldenOps ordering_ops() {
  return {
      {"sort", [](A a, X x) { return sort(x[0], a.integer("dim", -1), a.flag("descending")); }},
      {"argsort", [](A a, X x) { return argsort(x[0], a.integer("dim", -1), a.flag("descending")); }},
      {"topk", top},
      {"topk_values", [](A a, X x) { return top(a, x).values; }},
      {"argmax", argument(argmax, argmax)},
      {"argmin", argument(argmin, argmin)},
      {"max_with_indices", with_indices(max_with_indices)},
      {"min_with_indices", with_indices(min_with_indices)},
      {"max", reduced(max)},
      {"min", reduced(min)},
  };
}

}  // namespace bytetape::test
