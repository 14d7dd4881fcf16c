#include "bytetape/core/kernels/pointwise.h"
#include "bytetape/core/kernels/copy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bytetape/core/dispatch.h"
#include "bytetape/core/factories.h"

namespace bytetape {
namespace {

TEST(PointwiseKernels, ErfIsThatOfTheStandardLibrary) {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> values{0, -0.0, 1e-30, 1e-3, 0.5, 0.9, 1, 2, 3, 3.9, 5, 30, inf, std::nan("")};
  for (std::size_t i = 0, n = values.size(); i < n; ++i) values.push_back(-values[i]);
  const std::pair<DType, double> tolerances[] = {
      {DType::f64, 1e-15}, {DType::f32, 1e-6}, {DType::bf16, 1e-2}, {DType::f16, 2e-3}};
  for (const auto& [dtype, tolerance] : tolerances) {
    const Tensor wide = from_vector(values, {28}), x = empty({28}, dtype), y = empty({28}, dtype);
    run<&CopyKernels::copy>(x.device(), wide.read(), x.write());
    run<&PointwiseKernels::erf>(x.device(), x.read(), y.write());
    const auto in = x.to_vector<double>(), out = y.to_vector<double>();
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double expected = std::erf(in[i]);
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(out[i])) << dtype;
      else
        EXPECT_NEAR(out[i], expected, tolerance * std::abs(expected)) << dtype << " erf(" << in[i] << ")";
    }
  }
}

}  // namespace
}  // namespace bytetape
