// Products of few rows: one kernel of ours computes up to four, and cuBLASLt the others.
#include "bytetape/cuda/matmul/matvec.h"

#include <cmath>
#include <limits>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

struct DTypeTolerance {
  DType dtype;
  double tolerance;
};
constexpr DTypeTolerance dtypes[] = {{DType::f32, 2e-5}, {DType::bf16, 1e-2}, {DType::f16, 2e-3}};

/// Returns v in f64 on the CPU.
Tensor wide(const Tensor& v) { return v.defined() ? to(to(v, Device::cpu()), DType::f64) : v; }

/// Compares linear() on the GPU, twice, with the CPU in f64. `wide_w` is wide(w).
void expect_linear(const Tensor& x, const Tensor& w, const Tensor& wide_w, const Tensor& bias, Activation activation,
                   double tolerance) {
  const Tensor y = linear(x, w, bias, activation), expected = linear(wide(x), wide_w, wide(bias), activation);
  EXPECT_TRUE(all_close(y, expected, tolerance, tolerance * std::sqrt(static_cast<double>(w.size(1)))));
  EXPECT_EQ(linear(x, w, bias, activation).to_vector<double>(), y.to_vector<double>()) << "another time";
}
void expect_linear(const Tensor& x, const Tensor& w, double tolerance) {
  expect_linear(x, w, wide(w), {}, Activation::none, tolerance);
}

class CudaMatvec : public GpuTest, public testing::WithParamInterface<std::int64_t> {};

TEST_P(CudaMatvec, EqualsTheCpus) {
  const std::int64_t k = GetParam();
  for (const auto& [dtype, tolerance] : dtypes)
    for (const std::int64_t n : {1, 7, 131, 8200}) {
      if (n * k > 10'000'000) continue;  // would take the CPU too long
      const Tensor w = to(random_tensor({n, k}, dtype), gpu), b = to(random_tensor({n}, dtype), gpu), wide_w = wide(w);
      for (const std::int64_t m : {1, 2, 3, 4, 5}) {
        const Tensor x = to(random_tensor({m, k}, dtype), gpu);
        for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu_tanh})
          for (const Tensor& bias : {b, Tensor()}) {
            SCOPED_TRACE(detail::concat(dtype, " ", m, "x", k, "x", n, bias.defined() ? " bias" : ""));
            expect_linear(x, w, wide_w, bias, activation, tolerance);
          }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(K, CudaMatvec, testing::Values(1, 8, 64, 768, 776, 3072, 20000));

using CudaMatvecViews = GpuTest;

TEST_F(CudaMatvecViews, HaveGapsAndOddAddresses) {
  for (const auto& [dtype, tolerance] : dtypes) {
    SCOPED_TRACE(detail::concat(dtype));
    const Tensor x = to(random_tensor({4, 80}, dtype), gpu), w = to(random_tensor({50, 80}, dtype), gpu);
    for (const std::int64_t first : {0, 1, 8}) {  // the second is not aligned
      SCOPED_TRACE(first);
      expect_linear(narrow(x, 1, first, 64), narrow(w, 1, 8, 64), tolerance);
      expect_linear(narrow(x, 1, 8, 64), narrow(w, 1, first, 64), tolerance);
    }
    const Tensor columns = to(random_tensor({64, 3}, dtype), gpu);
    expect_linear(transpose(columns, 0, 1), narrow(w, 1, 0, 64), tolerance);
  }
}

// Each element is a sum in an order that depends on k alone.
TEST_F(CudaMatvecViews, HaveTheBitsOfAllRowsAndColumns) {
  for (const auto& [dtype, tolerance] : dtypes)
    for (const std::int64_t k : {64, 776, 3072}) {
      SCOPED_TRACE(detail::concat(dtype, " ", k));
      const Tensor x = to(random_tensor({4, k}, dtype), gpu), w = to(random_tensor({9000, k}, dtype), gpu);
      const Tensor y = linear(x, w);
      EXPECT_EQ(linear(narrow(x, 0, 2, 1), narrow(w, 0, 100, 13)).to_vector<double>(),
                contiguous(narrow(narrow(y, 0, 2, 1), 1, 100, 13)).to_vector<double>());
    }
}

TEST_F(CudaMatvecViews, PassNonFiniteValuesOn) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const auto& [dtype, tolerance] : dtypes) {
    SCOPED_TRACE(detail::concat(dtype));
    std::vector<double> values(32, 1);
    values[9] = infinity;
    values[17] = -infinity;
    values[30] = std::nan("");
    const Tensor w = make_tensor(values, {4, 8}, dtype, gpu), x = ones({1, 8}, dtype, gpu);
    const auto y = linear(x, w).to_vector<double>(), positive = linear(x, w, {}, Activation::relu).to_vector<double>();
    EXPECT_TRUE(all_close(y, {8, infinity, -infinity, std::nan("")}));
    EXPECT_TRUE(all_close(positive, {8, infinity, 0, std::nan("")}));
    EXPECT_TRUE(std::isnan(linear(zeros({1, 8}, dtype, gpu), w).to_vector<double>()[1])) << "0 * infinity";
  }
}

TEST_F(CudaMatvecViews, MayBeEmpty) {
  const Tensor w = to(random_tensor({5, 8}, DType::bf16), gpu), b = to(random_tensor({5}, DType::bf16), gpu);
  EXPECT_EQ(linear(zeros({0, 8}, DType::bf16, gpu), w).numel(), 0);
  EXPECT_EQ(linear(zeros({1, 8}, DType::bf16, gpu), zeros({0, 8}, DType::bf16, gpu)).numel(), 0);
  EXPECT_EQ(linear(zeros({1, 0}, DType::bf16, gpu), zeros({5, 0}, DType::bf16, gpu), b).to_vector<double>(),
            b.to_vector<double>());
}

TEST_F(CudaMatvecViews, HaveTheSameBitsIfTheInputOfTheActivationIsSaved) {
  for (const auto& [dtype, tolerance] : dtypes) {
    const Tensor x = to(random_tensor({2, 64}, dtype), gpu), b = to(random_tensor({40}, dtype), gpu);
    Tensor w = to(random_tensor({40, 64}, dtype), gpu);
    const auto y = linear(x, w, b, Activation::gelu_tanh).to_vector<double>();
    w.set_requires_grad(true);
    EXPECT_EQ(linear(x, w, b, Activation::gelu_tanh).to_vector<double>(), y) << dtype;
  }
}

}  // namespace
}  // namespace bytetape::test
