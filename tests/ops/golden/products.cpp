#include <algorithm>

#include "bytetape/autograd/ops.h"
#include "tests/ops/golden/groups.h"

namespace bytetape::test {
namespace {

std::optional<double> optional_number(A a, const char* key) {
  return a.has(key) ? std::optional<double>(a.number(key)) : std::nullopt;
}

/// The table has semicolons in place of commas.
Tensor summed(A a, X x) {
  std::string equation = a.text("equation");
  std::replace(equation.begin(), equation.end(), ';', ',');
  return einsum(equation, x[0], optional_input(x, 1));
}
Tensor convolved(A a, X x) {
  return conv1d(x[0], x[1], optional_input(x, 2),
                {.stride = a.integer("stride", 1),
                 .padding = a.integer("padding"),
                 .dilation = a.integer("dilation", 1),
                 .groups = a.integer("groups", 1)});
}
Tensor attended(A a, X x) {
  return scaled_dot_product_attention(
      x[0], x[1], x[2],
      {.mask = optional_input(x, 3), .causal = a.flag("causal"), .scale = optional_number(a, "scale")});
}

}  // namespace

GoldenOps product_ops() {
  return {
      {"einsum", summed},
      {"conv1d", convolved},
      {"scaled_dot_product_attention", attended},
      {"rms_norm",
       [](A a, X x) { return rms_norm(x[0], a.dims("shape"), optional_input(x, 1), optional_number(a, "eps")); }},
  };
}

}  // namespace bytetape::test
