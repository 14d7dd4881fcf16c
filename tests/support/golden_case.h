#pragma once
/// \file
/// Cases of ops and layers that PyTorch has computed, with first and second gradients. tests/golden/golden_case.py
/// explains their tables.
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "bytetape/autograd/ops/values_and_indices.h"
#include "bytetape/core/tensor.h"

namespace bytetape::test {

using Tensors = std::vector<Tensor>;

/// The arguments of a case that are not tensors. A missing argument has its default.
class GoldenArguments {
 public:
  void set(const std::string& key, const std::string& value) { values_[key] = value; }
  bool has(const std::string& key) const { return values_.contains(key); }
  std::string text(const std::string& key, const std::string& otherwise = "") const;
  std::int64_t integer(const std::string& key, std::int64_t otherwise = 0) const;
  double number(const std::string& key, double otherwise = 0) const;
  bool flag(const std::string& key) const { return integer(key) != 0; }
  /// Words are separated by spaces.
  std::vector<std::string> words(const std::string& key) const;
  Dims dims(const std::string& key) const;

 private:
  std::map<std::string, std::string> values_;
};

/// A tensor of a table. It has no memory on the ledger, so that other tests find none.
struct GoldenTensor {
  DType dtype;
  Shape shape;
  std::vector<double> values;
  bool is_leaf = false;  ///< whether it is an input that requires grad
  Tensor tensor() const;
};
using GoldenTensors = std::vector<GoldenTensor>;

struct GoldenCase {
  std::string name, op;
  GoldenArguments arguments;
  GoldenTensors inputs, results, seeds, gradients, weights, second_gradients;
};
/// Prints the name, for GoogleTest.
std::ostream& operator<<(std::ostream& out, const GoldenCase& c);

/// Returns input i, or an undefined tensor if a case has fewer.
inline Tensor optional_input(const Tensors& x, std::size_t i) { return i < x.size() ? x[i] : Tensor(); }

/// Returns the cases of a table in tests/golden, in order.
std::vector<GoldenCase> golden_cases(const char* table);

/// An op under test: a function of arguments and inputs, which may return a tensor, several, or ValuesAndIndices. A
/// layer puts its parameters in the place of inputs that have their values.
class GoldenOp {
 public:
  template <class F>
  GoldenOp(F f) : run_([f](const GoldenArguments& a, Tensors& x) { return list(f(a, x)); }) {}
  Tensors operator()(const GoldenArguments& a, Tensors& x) const { return run_(a, x); }

 private:
  static Tensors list(const Tensor& y) { return {y}; }
  static Tensors list(const ValuesAndIndices& y) { return {y.values, y.indices}; }
  static Tensors list(Tensors y) { return y; }
  std::function<Tensors(const GoldenArguments&, Tensors&)> run_;
};
using GoldenOps = std::map<std::string, GoldenOp>;

/// Compares results, gradients and second gradients with the case's, to 1e-9. Gradients are computed with and without
/// recording, since rules may differ.
void expect_golden(const GoldenCase& c, const GoldenOp& op);
/// Expects that each op has a case, and each case an op.
void expect_complete(const std::vector<GoldenCase>& cases, const GoldenOps& ops);

}  // namespace bytetape::test
