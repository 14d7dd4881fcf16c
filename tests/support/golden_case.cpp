#include "tests/support/golden_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "bytetape/autograd/engine.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/source_dir.h"

namespace bytetape::test {

std::string GoldenArguments::text(const std::string& key, const std::string& otherwise) const {
  return has(key) ? values_.at(key) : otherwise;
}
std::int64_t GoldenArguments::integer(const std::string& key, std::int64_t otherwise) const {
  return has(key) ? std::stoll(values_.at(key)) : otherwise;
}
double GoldenArguments::number(const std::string& key, double otherwise) const {
  return has(key) ? std::stod(values_.at(key)) : otherwise;
}
std::vector<std::string> GoldenArguments::words(const std::string& key) const {
  std::istringstream text(this->text(key));
  std::vector<std::string> all;
  for (std::string word; text >> word;) all.push_back(word);
  return all;
}
Dims GoldenArguments::dims(const std::string& key) const {
  Dims all;
  for (const std::string& word : words(key)) all.push_back(std::stoll(word));
  return all;
}

Tensor GoldenTensor::tensor() const { return make_tensor(values, shape, dtype); }

std::ostream& operator<<(std::ostream& out, const GoldenCase& c) { return out << c.name; }

namespace {

constexpr double tolerance = 1e-9;

std::vector<std::string> cells_of(const std::string& line, char separator = ',') {
  std::istringstream text(line);
  std::vector<std::string> cells;
  for (std::string cell; std::getline(text, cell, separator);) cells.push_back(cell);
  return cells;
}
Shape shape_of(const std::string& cell) {
  Shape shape;
  if (cell != "scalar")
    for (const std::string& size : cells_of(cell, 'x')) shape.push_back(std::stoll(size));
  return shape;
}
DType dtype_of_cell(const std::string& cell) {
  return cell == "f64" ? DType::f64 : cell == "i64" ? DType::i64 : DType::boolean;
}
GoldenTensor tensor_of(const std::vector<std::string>& cells) {
  GoldenTensor x{dtype_of_cell(cells.at(1)), shape_of(cells.at(2)), {}, cells[0] == "x"};
  for (std::size_t i = 3; i < cells.size(); ++i) x.values.push_back(std::stod(cells[i]));
  return x;
}

void add_arguments(GoldenCase& c, const std::vector<std::string>& cells) {
  for (std::size_t i = 3; i < cells.size(); ++i) {
    const std::size_t equals = cells[i].find('=');
    c.arguments.set(cells[i].substr(0, equals), cells[i].substr(equals + 1));
  }
}
void add_tensor(GoldenCase& c, const std::vector<std::string>& cells) {
  const std::map<std::string, GoldenTensors*> parts{{"x", &c.inputs},          {"c", &c.inputs},    {"y", &c.results},
                                                    {"v", &c.seeds},           {"g", &c.gradients}, {"w", &c.weights},
                                                    {"h", &c.second_gradients}};
  parts.at(cells[0])->push_back(tensor_of(cells));
}

/// Whether zeros have the same signs. Only results must, because sums of gradients begin with 0.
bool same_zeros(const Tensor& x, const GoldenTensor& expected) {
  const auto a = x.to_vector<double>(), b = expected.values;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] == 0 && b[i] == 0 && std::signbit(a[i]) != std::signbit(b[i])) return false;
  return true;
}
void expect_equal(const Tensor& x, const GoldenTensor& expected, const std::string& what) {
  ASSERT_TRUE(x.defined()) << what;
  EXPECT_EQ(x.dtype(), expected.dtype) << what;
  ASSERT_EQ(x.shape(), expected.shape) << what;
  EXPECT_TRUE(all_close(x.to_vector<double>(), expected.values, tolerance, tolerance)) << what;
}
void expect_equal(const Tensors& x, const GoldenTensors& expected, const std::string& what) {
  ASSERT_EQ(x.size(), expected.size()) << what;
  for (std::size_t i = 0; i < x.size(); ++i) expect_equal(x[i], expected[i], what + ' ' + std::to_string(i));
}

/// A run of the op, on new leaves.
struct Run {
  Tensors inputs, results, leaves, outputs, seeds;

  Run(const GoldenCase& c, const GoldenOp& op) {
    for (const GoldenTensor& x : c.inputs) inputs.push_back(x.tensor().set_requires_grad(x.is_leaf));
    results = op(c.arguments, inputs);
    for (const Tensor& x : inputs)
      if (x.requires_grad()) leaves.push_back(x);
    for (const Tensor& y : results)
      if (y.requires_grad()) outputs.push_back(y);
    for (const GoldenTensor& v : c.seeds) seeds.push_back(v.tensor().set_requires_grad());
  }
  Tensors gradients(bool recorded) const {
    return grad(outputs, leaves, {.seeds = seeds, .create_graph = recorded, .allow_unused = true});
  }
};

/// Unused inputs have gradient 0.
Tensors with_zeros(Tensors g, const Tensors& inputs) {
  for (std::size_t i = 0; i < g.size(); ++i)
    if (!g[i].defined()) g[i] = zeros_like(inputs[i]);
  return g;
}

void expect_second(const GoldenCase& c, const Run& run, const Tensors& gradients) {
  Tensors used, weights, inputs = run.leaves;
  inputs.insert(inputs.end(), run.seeds.begin(), run.seeds.end());
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined() && gradients[i].requires_grad())
      used.push_back(gradients[i]), weights.push_back(c.weights.at(i).tensor());
  const Tensors second =
      used.empty() ? Tensors(inputs.size()) : grad(used, inputs, {.seeds = weights, .allow_unused = true});
  expect_equal(with_zeros(second, inputs), c.second_gradients, "second gradient");
}

void expect_results(const GoldenCase& c, const Run& run) {
  expect_equal(run.results, c.results, "result");
  if (testing::Test::HasFatalFailure()) return;
  for (std::size_t i = 0; i < run.results.size(); ++i)
    EXPECT_TRUE(same_zeros(run.results[i], c.results[i])) << "result " << i << " has another sign of a zero";
}

}  // namespace

std::vector<GoldenCase> golden_cases(const char* table) {
  std::ifstream file(source_dir() / "tests/golden" / table);
  std::vector<GoldenCase> cases;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    const auto cells = cells_of(line);
    if (cells.at(0) == "op") {
      cases.push_back({.name = cells.at(1), .op = cells.at(2)});
      add_arguments(cases.back(), cells);
    } else {
      add_tensor(cases.back(), cells);
    }
  }
  return cases;
}

void expect_golden(const GoldenCase& c, const GoldenOp& op) {
  const Run run(c, op);
  ASSERT_EQ(run.results.size(), c.results.size());
  expect_results(c, run);
  ASSERT_TRUE(run.outputs.size() == c.seeds.size() || c.seeds.empty()) << run.outputs.size() << " require grad";
  if (c.seeds.empty()) return;
  expect_equal(with_zeros(run.gradients(false), run.leaves), c.gradients, "gradient");
  if (c.weights.empty()) return;
  const Run again(c, op);
  const Tensors recorded = again.gradients(true);
  expect_equal(with_zeros(recorded, again.leaves), c.gradients, "recorded gradient");
  expect_second(c, again, recorded);
}

void expect_complete(const std::vector<GoldenCase>& cases, const GoldenOps& ops) {
  std::set<std::string> with_case, with_op;
  for (const GoldenCase& c : cases) with_case.insert(c.op);
  for (const auto& [name, op] : ops) with_op.insert(name);
  EXPECT_EQ(with_case, with_op);
}

}  // namespace bytetape::test
