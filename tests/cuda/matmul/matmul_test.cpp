// More products than one call of cuBLASLt may make.
#include "bytetape/cuda/matmul/matmul.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "bytetape/bytetape.h"
#include "bytetape/cuda/matmul/matmul_layout.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

// Needs no GPU.
TEST(MatmulCalls, MakeEachProductOnceAndNoCallTooMany) {
  constexpr std::int64_t most = 65535;  // blocks along y and z of a grid
  for (const std::int64_t batch : {0, 1, 32767, 32768, 32769, 65535, 65536, 70000, 1 << 20}) {
    std::int64_t next = 0;
    cuda::for_calls(batch, [&](std::int64_t first, std::int64_t count) {
      EXPECT_EQ(first, next);
      EXPECT_TRUE(count > 0 && count <= most);
      EXPECT_EQ(first * 2 % 256, 0) << "bytes: less aligned than the first";
      next += count;
    });
    EXPECT_EQ(next, batch);
  }
}

struct Sizes {
  std::int64_t batch, m, k, n;
};
class CudaMatmulBatch : public GpuTest, public testing::WithParamInterface<Sizes> {};

TEST_P(CudaMatmulBatch, MayBeOfAnySize) {
  const auto [batch, m, k, n] = GetParam();
  for (const auto& [dtype, tolerance] : {std::pair{DType::f32, 1e-5}, {DType::bf16, 2e-2}, {DType::f64, 1e-12}})
    for (const bool turned : {false, true}) {
      SCOPED_TRACE(detail::concat(dtype, turned ? " transposed" : ""));
      const Tensor a = random_tensor({batch, m, k}, dtype);
      const Tensor b = random_tensor(turned ? Shape{batch, n, k} : Shape{batch, k, n}, dtype);
      const auto product = [&](const Tensor& x, const Tensor& y) { return matmul(x, turned ? transpose(y, 1, 2) : y); };
      const Tensor y = product(to(a, gpu), to(b, gpu));
      EXPECT_TRUE(all_close(to(to(y, Device::cpu()), DType::f64), product(to(a, DType::f64), to(b, DType::f64)),
                            tolerance, 8 * tolerance));
      EXPECT_EQ(product(to(a, gpu), to(b, gpu)).to_vector<double>(), y.to_vector<double>());
    }
}

INSTANTIATE_TEST_SUITE_P(, CudaMatmulBatch,
                         testing::Values(Sizes{65535, 2, 3, 2}, Sizes{65536, 2, 3, 2}, Sizes{70001, 8, 8, 8},
                                         Sizes{70001, 5, 7, 1}, Sizes{70001, 1, 7, 5}, Sizes{131073, 3, 2, 4}),
                         [](const auto& info) {
                           const Sizes& s = info.param;
                           return detail::concat(s.batch, "x", s.m, "x", s.k, "x", s.n);
                         });

using CudaMatmul = GpuTest;

// cuBLASLt documents no error bound for its GELU, so whole f32 does not take it.
TEST_F(CudaMatmul, InWholeF32TakesOurGelu) {
  const AllowTf32 allow(false);
  const Tensor x = to(random_tensor({64, 32}, DType::f32), gpu), w = to(random_tensor({48, 32}, DType::f32), gpu),
               b = to(random_tensor({48}, DType::f32), gpu);
  for (const Tensor& bias : {b, Tensor()})
    EXPECT_EQ(linear(x, w, bias, Activation::gelu_tanh).to_vector<float>(),
              gelu(linear(x, w, bias), Approximate::tanh).to_vector<float>())
        << (bias.defined() ? "with bias" : "without bias");
}

}  // namespace
}  // namespace bytetape::test
