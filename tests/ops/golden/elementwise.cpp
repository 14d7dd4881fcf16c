#include "bytetape/autograd/ops.h"
#include "tests/ops/golden/groups.h"

namespace bytetape::test {
namespace {

GoldenOp unary(Tensor (*f)(const Tensor&)) {
  return [f](A, X x) { return f(x[0]); };
}
GoldenOp binary(Tensor (*f)(const Operand&, const Operand&)) {
  return [f](A, X x) { return f(x[0], x[1]); };
}
std::optional<Scalar> bound(A a, const char* key) {
  return a.has(key) ? std::optional<Scalar>(a.number(key)) : std::nullopt;
}
Tensor filled(A a, X x, Tensor (*fill)(const Tensor&, const Tensor&, const Operand&), const Tensor& into) {
  return x.size() > 2 ? fill(into, x[1], x[2]) : fill(into, x[1], a.number("value"));
}

}  // namespace

GoldenOps elementwise_ops() {
  return {
      {"sin", unary(sin)},
      {"cos", unary(cos)},
      {"log1p", unary(log1p)},
      {"expm1", unary(expm1)},
      {"floor", unary(floor)},
      {"ceil", unary(ceil)},
      {"round", unary(round)},
      {"softplus", [](A a, X x) { return softplus(x[0], a.number("beta", 1), a.number("threshold", 20)); }},
      {"clamp", [](A a, X x) { return clamp(x[0], bound(a, "low"), bound(a, "high")); }},
      {"isnan", unary(isnan)},
      {"isinf", unary(isinf)},
      {"isfinite", unary(isfinite)},
      {"logical_not", unary(logical_not)},
      {"logical_and", binary(logical_and)},
      {"logical_or", binary(logical_or)},
      {"logical_xor", binary(logical_xor)},
      {"masked_fill", [](A a, X x) { return filled(a, x, masked_fill, x[0]); }},
      {"masked_fill_", [](A a, X x) { return filled(a, x, masked_fill_, clone(x[0])); }},
  };
}

}  // namespace bytetape::test
