#include "tests/ops/families.h"

namespace bytetape::test {
namespace {

/// Column k * hidden + j of row r.
struct Gates {
  const Array &from_x, &from_h;
  std::int64_t hidden;
  double x(std::int64_t r, int k, std::int64_t j) const { return at(from_x, r, k, j); }
  double h(std::int64_t r, int k, std::int64_t j) const { return at(from_h, r, k, j); }
  double sum(std::int64_t r, int k, std::int64_t j) const { return x(r, k, j) + h(r, k, j); }

 private:
  double at(const Array& gates, std::int64_t r, int k, std::int64_t j) const {
    const std::int64_t width = gates.shape.back();
    return gates.values[static_cast<std::size_t>(r * width + k * hidden + j)];
  }
};

/// h and c.
Arrays lstm_cell_of(A x) {
  Array h = x[2], c = x[2];
  const std::int64_t hidden = c.shape.back();
  const Gates gates{x[0], x[1], hidden};
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(c.values.size()); ++at) {
    const std::int64_t r = at / hidden, j = at % hidden;
    double& state = c.values[static_cast<std::size_t>(at)];
    state = sigmoid_of(gates.sum(r, 1, j)) * state + sigmoid_of(gates.sum(r, 0, j)) * std::tanh(gates.sum(r, 2, j));
    h.values[static_cast<std::size_t>(at)] = sigmoid_of(gates.sum(r, 3, j)) * std::tanh(state);
  }
  return {h, c};
}
Array gru_cell_of(A x) {
  Array h = x[2];
  const std::int64_t hidden = h.shape.back();
  const Gates gates{x[0], x[1], hidden};
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(h.values.size()); ++at) {
    const std::int64_t r = at / hidden, j = at % hidden;
    double& state = h.values[static_cast<std::size_t>(at)];
    const double n = std::tanh(gates.x(r, 2, j) + sigmoid_of(gates.sum(r, 0, j)) * gates.h(r, 2, j)),
                 z = sigmoid_of(gates.sum(r, 1, j));
    state = (1 - z) * n + z * state;
  }
  return h;
}
Tensor both(const LstmCell& made) { return cat({made.h, made.c}); }

/// Inputs of a cell with `gates` gates, for a state of `shape`.
Case cell(std::int64_t gates, const Shape& shape) {
  Shape wide = shape;
  wide[wide.size() - 1] *= gates;
  return {{.shape = wide}, {.shape = wide}, {.shape = shape}};
}
Cases cells(std::int64_t gates) {
  return {cell(gates, {1}),
          cell(gates, {5}),
          cell(gates, {3, 8}),
          cell(gates, {1, 2, 5}),
          cell(gates, {0, 3}),
          {in(3, 2, gates * 2).transposed(), in(3, 2, gates * 2).spaced(), in(3, 2, 2).narrowed()},
          {in(4, gates * 4).narrowed(), in(4, gates * 4).expanded(), in(4, 4).transposed()}};
}

std::vector<BadInput> bad_cells(std::int64_t gates) {
  const auto w = gates * 3;
  return {bad<DTypeError>("floating", {in(2, w).as(DType::i64), in(2, w).as(DType::i64), in(2, 3).as(DType::i64)}),
          bad<DTypeError>("inputs of different dtypes", {in(2, w), in(2, w), in(2, 3).as(DType::f32)}),
          bad<DeviceError>("inputs on different devices", {in(2, w), in(2, w).elsewhere(), in(2, 3)}),
          bad<ValueError>("undefined", {in(2, w), in(2, w), undefined}),
          bad<ShapeError>("expected from_x and from_h of shape (2, ", {in(2, w), in(2, w + 1), in(2, 3)}),
          bad<ShapeError>("expected from_x and from_h of shape (3, ", {in(2, w), in(2, w), in(3, 3)}),
          bad<ShapeError>("of shape (..., hidden)", {in(2, 0), in(2, 0), in(2, 0)}),
          bad<ShapeError>("of shape (..., hidden)", {in(), in(), in()})};
}

}  // namespace

std::vector<OpRow> recurrent_rows() {
  return {
      {.op = "lstm_cell",
       .f = [](X x) { return both(lstm_cell(x[0], x[1], x[2])); },
       .reference = [](A x) { return ref::cat(lstm_cell_of(x), 0); },
       .cases = cells(4),
       .bad = bad_cells(4),
       .tolerance = 2,
       .large = cell(4, {60, 512})},
      {.op = "lstm_cell",
       .variant = "h",
       .f = [](X x) { return lstm_cell(x[0], x[1], x[2]).h; },
       .reference = [](A x) { return lstm_cell_of(x)[0]; },
       .cases = cells(4),
       .large = cell(4, {60, 512})},
      {.op = "gru_cell",
       .f = [](X x) { return gru_cell(x[0], x[1], x[2]); },
       .reference = gru_cell_of,
       .cases = cells(3),
       .bad = bad_cells(3),
       .large = cell(3, {60, 512})},
  };
}

}  // namespace bytetape::test
