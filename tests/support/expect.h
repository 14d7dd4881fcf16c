#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "bytetape/core/tensor.h"

namespace bytetape::test {

/// Runs f once: does it throw E, with `words` in the message?
template <class E, class F>
::testing::AssertionResult throws_saying(const F& f, const std::string& words) {
  try {
    f();
  } catch (const E& e) {
    if (std::string(e.what()).find(words) != std::string::npos) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "the message is \"" << e.what() << "\", without \"" << words << '"';
  } catch (const std::exception& e) { return ::testing::AssertionFailure() << "another exception: " << e.what(); }
  return ::testing::AssertionFailure() << "nothing was thrown";
}

/// The statement throws E, whose message holds `words`.
#define EXPECT_THROWS_SAYING(statement, E, words) \
  EXPECT_TRUE(::bytetape::test::throws_saying<E>([&] { statement; }, words)) << #statement

/// |actual - expected| <= atol + rtol |expected| everywhere, shapes alike; NaN equals NaN.
inline ::testing::AssertionResult all_close(const std::vector<double>& actual, const std::vector<double>& expected,
                                            double rtol = 1e-12, double atol = 1e-12) {
  if (actual.size() != expected.size())
    return ::testing::AssertionFailure() << actual.size() << " values, expected " << expected.size();
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i], e = expected[i];
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    if (!(std::abs(a - e) <= atol + rtol * std::abs(e)))
      return ::testing::AssertionFailure() << "element " << i << " of " << actual.size() << " is " << a << ", expected "
                                           << e << " (off by " << std::abs(a - e) << ")";
  }
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult all_close(const Tensor& actual, const Tensor& expected, double rtol = 1e-12,
                                            double atol = 1e-12) {
  if (!actual.defined() || !expected.defined())
    return ::testing::AssertionFailure() << describe(actual) << " against " << describe(expected);
  if (!(actual.shape() == expected.shape()))
    return ::testing::AssertionFailure() << "shape " << actual.shape() << ", expected " << expected.shape();
  return all_close(actual.to_vector<double>(), expected.to_vector<double>(), rtol, atol);
}

}  // namespace bytetape::test
