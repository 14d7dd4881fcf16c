#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "bytetape/core/tensor.h"
#include "tests/support/expect.h"

namespace bytetape::test {

/// Expects elements to differ by at most `tolerance`, relative to each other or to the largest one.
inline void expect_close(const Tensor& actual, const Tensor& expected, double tolerance) {
  double largest = 1e-3;
  const auto values = expected.to_vector<double>();
  for (const double v : values) largest = std::max(largest, std::abs(v));
  EXPECT_TRUE(all_close(actual.to_vector<double>(), values, tolerance, tolerance * largest));
}
inline void expect_close(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    SCOPED_TRACE(i);
    expect_close(actual[i], expected[i], tolerance);
  }
}
/// Expects the same bits.
inline void expect_equal(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const auto a = actual[i].to_vector<double>(), e = expected[i].to_vector<double>();
    const auto [at, of] = std::ranges::mismatch(a, e);
    EXPECT_TRUE(at == a.end() && of == e.end()) << "tensor " << i << ", element " << at - a.begin();
  }
}

}  // namespace bytetape::test
