#pragma once
// The problem of tests/golden/optimizers.py, and PyTorch's answers to it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bytetape/core/factories.h"
#include "bytetape/optim/optimizer.h"
#include "tests/support/golden.h"

namespace bytetape::optim::golden {

inline constexpr int size = 7;
using Values = std::vector<double>;

/// What PyTorch has after each number of steps.
inline std::map<int, Values> expected(const std::string& configuration) {
  std::map<int, Values> by_step;
  for (const auto& cells : test::golden_lines("optimizers.csv", configuration))
    for (std::size_t i = 1; i < cells.size(); ++i) by_step[std::stoi(cells[0])].push_back(std::stod(cells[i]));
  return by_step;
}

inline Values start() {
  Values x;
  for (int i = 0; i < size; ++i) x.push_back(1 - 0.3 * i);
  return x;
}

/// g = A x - b + sin(x).
inline Values gradient(const Values& x) {
  Values g;
  for (int i = 0; i < size; ++i) {
    double sum = x[i] - (0.5 - 0.1 * i) + std::sin(x[i]);
    for (int j = 0; j < size; ++j) sum += x[j] / (1 + i + j);
    g.push_back(sum);
  }
  return g;
}

template <class T>
Tensor tensor(const Values& x) {
  return from_vector(std::vector<T>(x.begin(), x.end()));
}

/// How a configuration trains: its optimizer, what goes on around each step, and what is compared.
struct Training {
  std::unique_ptr<Optimizer> optimizer;
  std::function<void()> before_step = [] {}, after_step = [] {};
  std::vector<Tensor> compared{};  // the parameters, where none are told
};

inline Values values_of(const std::vector<Tensor>& parts) {
  Values all;
  for (const Tensor& part : parts) {
    const Values values = part.to_vector<double>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

/// Takes 100 steps in T and compares with PyTorch's after 1, 10 and 100; make(x in parts of those sizes) is a Training.
template <class T, class Make>
void run(const std::string& configuration, double tolerance, Make&& make, const std::vector<int>& sizes = {size}) {
  SCOPED_TRACE(configuration + " in " + to_string(dtype_of<T>));
  const auto table = expected(configuration);
  ASSERT_EQ(table.size(), 3u);
  const auto parts_of = [&](const Values& x) {
    std::vector<Tensor> parts;
    auto at = x.begin();
    for (const int n : sizes) parts.push_back(tensor<T>(Values(at, at + n))), at += n;
    return parts;
  };
  std::vector<Tensor> parameters = parts_of(start());
  for (Tensor& p : parameters) p.set_requires_grad();
  const Training training = make(parameters);
  for (int step = 1; step <= 100; ++step) {
    const std::vector<Tensor> gradients = parts_of(gradient(values_of(parameters)));
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].set_grad(gradients[i]);
    training.before_step();
    training.optimizer->step();
    training.after_step();
    if (!table.contains(step)) continue;
    const Values found = values_of(training.compared.empty() ? parameters : training.compared),
                 &wanted = table.at(step);
    ASSERT_EQ(wanted.size(), found.size());
    for (int i = 0; i < size; ++i)
      EXPECT_NEAR(found[i], wanted[i], tolerance * std::max(std::abs(wanted[i]), 0.01))
          << "x" << i << ", step " << step;
  }
}

/// In both precisions; f64 far below the 1e-6 that is promised.
template <class Make>
void run_both(const std::string& configuration, Make&& make, const std::vector<int>& sizes = {size}) {
  run<double>(configuration, 1e-10, make, sizes);
  run<float>(configuration, 1e-5, make, sizes);
}

/// Of an optimizer alone.
template <class Optimizer, class Options>
void run_both(const std::string& configuration, const Options& options) {
  run_both(configuration, [&](const std::vector<Tensor>& parameters) -> Training {
    return {.optimizer = std::make_unique<Optimizer>(parameters, options)};
  });
}

}  // namespace bytetape::optim::golden
