#pragma once
// The problem of tests/golden/optimizers.py, and PyTorch's answers to it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "bytetape/core/factories.h"
#include "bytetape/optim/optimizer.h"

namespace bytetape::optim::golden {

inline constexpr int size = 7;
using Values = std::vector<double>;

/// What PyTorch has after each number of steps.
inline std::map<int, Values> expected(const std::string& configuration) {
  std::ifstream file(BYTETAPE_SOURCE_DIR "/tests/golden/optimizers.csv");
  std::map<int, Values> by_step;
  for (std::string line, cell; std::getline(file, line);) {
    std::istringstream cells(line);
    if (!std::getline(cells, cell, ',') || cell != configuration) continue;
    std::getline(cells, cell, ',');
    Values& x = by_step[std::stoi(cell)];
    while (std::getline(cells, cell, ',')) x.push_back(std::stod(cell));
  }
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

/// Takes 100 steps in T and compares with PyTorch's after 1, 10 and 100.
template <class T, class MakeOptimizer>
void run(const std::string& configuration, double tolerance, MakeOptimizer&& make) {
  SCOPED_TRACE(configuration + " in " + to_string(dtype_of<T>));
  const auto table = expected(configuration);
  ASSERT_EQ(table.size(), 3u);
  Tensor x = tensor<T>(start());
  const auto optimizer = make(std::vector<Tensor>{x.set_requires_grad()});
  for (int step = 1; step <= 100; ++step) {
    x.set_grad(tensor<T>(gradient(x.to_vector<double>())));
    optimizer->step();
    if (!table.contains(step)) continue;
    const Values found = x.to_vector<double>(), &wanted = table.at(step);
    ASSERT_EQ(wanted.size(), found.size());
    for (int i = 0; i < size; ++i)
      EXPECT_NEAR(found[i], wanted[i], tolerance * std::max(std::abs(wanted[i]), 0.01))
          << "x" << i << ", step " << step;
  }
}

/// In both precisions; f64 far below the 1e-6 that is promised.
template <class Optimizer, class Options>
void run_both(const std::string& configuration, const Options& options) {
  const auto make = [&](const std::vector<Tensor>& parameters) {
    return std::make_unique<Optimizer>(parameters, options);
  };
  run<double>(configuration, 1e-10, make);
  run<float>(configuration, 1e-5, make);
}

}  // namespace bytetape::optim::golden
