// Attention to a cache on a GPU: head sizes of one to all threads of a warp, and positions of several rounds of a
// block.
#include "bytetape/autograd/ops/attention/cached_attention.h"

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

class CudaCachedAttention : public GpuTest, public testing::WithParamInterface<std::int64_t> {};

/// y, the keys and the values of a call on a device.
std::vector<std::vector<double>> results(const std::vector<Tensor>& x, const Tensor& positions, Device device) {
  std::vector<Tensor> there;
  for (const Tensor& v : x) there.push_back(to(clone(v), device));
  const Tensor y = cached_attention(there[0], there[1], there[2], there[3], there[4], to(positions, device));
  return {y.to_vector<double>(), there[3].to_vector<double>(), there[4].to_vector<double>()};
}

TEST_P(CudaCachedAttention, EqualsTheCpus) {
  const std::int64_t d = GetParam(), capacity = 700;
  const Tensor positions = from_vector(std::vector<std::int64_t>{0, 3, 130, 690});
  for (const std::int64_t t : {1, 6})
    for (const auto& [dtype, tolerance] :
         {std::pair{DType::f64, 1e-12}, {DType::f32, 2e-5}, {DType::bf16, 2e-2}, {DType::f16, 2e-3}}) {
      SCOPED_TRACE(detail::concat(dtype, " ", t));
      const std::vector<Tensor> x{random_tensor({4, 6, t, d}, dtype), random_tensor({4, 2, t, d}, dtype),
                                  random_tensor({4, 2, t, d}, dtype), random_tensor({4, 2, capacity, d}, dtype),
                                  random_tensor({4, 2, capacity, d}, dtype)};
      const auto here = results(x, positions, {}), there = results(x, positions, gpu);
      EXPECT_TRUE(all_close(there[0], here[0], tolerance, tolerance));
      EXPECT_EQ(there[1], here[1]);
      EXPECT_EQ(there[2], here[2]);
      EXPECT_EQ(results(x, positions, gpu), there) << "another time";
    }
}

INSTANTIATE_TEST_SUITE_P(HeadSize, CudaCachedAttention, testing::Values(1, 5, 8, 20, 64, 80, 128, 250, 256));

using CudaCachedAttentionFault = GpuTest;
TEST_F(CudaCachedAttentionFault, LeavesTheCacheAlone) {
  const Tensor x = to(ones({3, 1, 2, 4}), gpu), keys = zeros({3, 1, 5, 4}, DType::f32, gpu), values = zeros_like(keys);
  const Tensor positions = to(from_vector(std::vector<std::int64_t>{0, 4, 9}), gpu);
  const Tensor y = cached_attention(x, x, x, keys, values, positions);
  EXPECT_THROWS_SAYING(y.to_vector<double>(), ValueError, "cached_attention: position 4 of a row is not in [0, 4)");
  EXPECT_EQ((sum(abs(keys)) + sum(abs(values)) + sum(abs(y))).item<double>(), 0);
}

}  // namespace
}  // namespace bytetape::test
