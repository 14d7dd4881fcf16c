#pragma once
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape::test {

/// BYTETAPE_TEST_SEED, or a fixed number: the same inputs on every run, others when asked.
std::uint64_t seed();

/// A generator of its own for each name and number.
std::mt19937_64 generator_for(std::string_view name, std::uint64_t number = 0);

/// Standard normal values, drawn on the host: no kernel of ours makes the inputs of our tests.
std::vector<double> normal_values(std::int64_t n, std::mt19937_64& generator);

/// A fresh normal tensor; the next call gives another one.
Tensor random_tensor(const Shape& shape, DType dtype = DType::f64);
/// ... that requires grad.
Tensor random_leaf(const Shape& shape, DType dtype = DType::f64);

/// `values`, row-major, in any dtype on any device.
Tensor make_tensor(const std::vector<double>& values, const Shape& shape, DType dtype = DType::f64, Device device = {});

}  // namespace bytetape::test
