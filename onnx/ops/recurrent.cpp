#include "bytetape/onnx/ops/table.h"

namespace bytetape::onnx {
namespace {

/// Splits x into `count` parts of equal size along its last dim.
Names gates(Conversion& c, const std::string& x, std::int64_t hidden, std::size_t count) {
  const std::vector<std::int64_t> sizes(count, hidden);
  return c.graph.add_several("Split", {x, c.graph.integers(sizes)}, {{"axis", std::int64_t{-1}}}, count);
}

/// Returns f(a + b).
std::string of_sum(Conversion& c, const char* f, const std::string& a, const std::string& b) {
  return c.graph.add(f, {c.graph.add("Add", {a, b})});
}

void lstm_cell(Conversion& c) {
  const std::int64_t hidden = c.size(2, c.rank(2) - 1);
  const Names parts = gates(c, c.graph.add("Add", {c.in(0), c.in(1)}), hidden, 4);  // i, f, g, o
  const auto sigmoid = [&](std::size_t i) { return c.graph.add("Sigmoid", {parts[i]}); };
  const std::string kept = c.graph.add("Mul", {sigmoid(1), c.in(2)}),
                    added = c.graph.add("Mul", {sigmoid(0), c.graph.add("Tanh", {parts[2]})}),
                    cell = c.graph.add("Add", {kept, added});
  c.set_out(c.graph.add("Mul", {sigmoid(3), c.graph.add("Tanh", {cell})}), 0);
  c.set_out(cell, 1);
}

void gru_cell(Conversion& c) {
  const std::int64_t hidden = c.size(2, c.rank(2) - 1);
  const Names x = gates(c, c.in(0), hidden, 3), h = gates(c, c.in(1), hidden, 3);  // r, z, n
  const std::string r = of_sum(c, "Sigmoid", x[0], h[0]), z = of_sum(c, "Sigmoid", x[1], h[1]),
                    n = of_sum(c, "Tanh", x[2], c.graph.add("Mul", {r, h[2]})),
                    step = c.graph.add("Mul", {z, c.graph.add("Sub", {c.in(2), n})});
  c.set_out(c.graph.add("Add", {n, step}));
}

constexpr Converter converters[] = {{"gru_cell", gru_cell}, {"lstm_cell", lstm_cell}};

}  // namespace

Converters recurrent_converters() { return converters; }

}  // namespace bytetape::onnx
