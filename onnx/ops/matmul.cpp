#include "bytetape/onnx/ops/pointwise.h"
#include "bytetape/onnx/ops/table.h"

namespace bytetape::onnx {
namespace {

void matmul(Conversion& c) { c.set_out(c.graph.add("MatMul", {c.in(0), c.in(1)})); }

void linear(Conversion& c) {
  std::string y;
  if (c.rank() == 2) {
    Names inputs{c.in(0), c.in(1)};
    if (c.has(2)) inputs.push_back(c.in(2));
    y = c.graph.add("Gemm", inputs, {{"transB", std::int64_t{1}}});
  } else {
    const std::string weight = c.graph.add("Transpose", {c.in(1)}, {{"perm", std::vector<std::int64_t>{1, 0}}});
    y = c.graph.add("MatMul", {c.in(0), weight});
    if (c.has(2)) y = c.graph.add("Add", {y, c.in(2)});
  }
  c.set_out(activated(c, y, c.text("activation"), c.out_dtype()));
}

void einsum(Conversion& c) {
  Names inputs{c.in(0)};
  if (c.has(1)) inputs.push_back(c.in(1));
  c.set_out(c.graph.add("Einsum", inputs, {{"equation", c.text("equation")}}));
}

constexpr Converter converters[] = {{"einsum", einsum}, {"linear", linear}, {"matmul", matmul}};

}  // namespace

Converters matmul_converters() { return converters; }

}  // namespace bytetape::onnx
