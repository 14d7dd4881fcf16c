// Attention to a cache on a GPU: head sizes of one to all threads of a warp, and positions of several rounds of a
// block.
#include "bytetape/autograd/ops/attention/cached_attention.h"

#include <cmath>
#include <limits>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

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

using CudaCachedAttentionSizes = GpuTest;

struct CacheSizes {
  std::int64_t rows, d, capacity;
};

// Few queries have clusters of blocks. Rounds of keys end at multiples of 128 for a head size of 64 in 16 bits.
TEST_F(CudaCachedAttentionSizes, HasAnyNumberOfCachedTokens) {
  for (const auto& [rows, d, capacity] : {CacheSizes{1, 64, 1024}, {1, 80, 1024}, {1, 128, 1024}, {12, 64, 400}})
    for (const auto& [dtype, tolerance] : {std::pair{DType::f32, 2e-5}, {DType::bf16, 2e-2}, {DType::f16, 2e-3}})
      for (const std::int64_t cached : {0, 1, 127, 128, 129, 383, 1000}) {
        if (cached >= capacity) continue;
        SCOPED_TRACE(detail::concat(dtype, " ", d, " ", rows, " ", cached));
        const std::vector<Tensor> x{random_tensor({rows, 12, 1, d}, dtype), random_tensor({rows, 4, 1, d}, dtype),
                                    random_tensor({rows, 4, 1, d}, dtype), random_tensor({rows, 4, capacity, d}, dtype),
                                    random_tensor({rows, 4, capacity, d}, dtype)};
        const Tensor positions = full({rows}, cached, DType::i64);
        const auto here = results(x, positions, {}), there = results(x, positions, gpu);
        EXPECT_TRUE(all_close(there[0], here[0], tolerance, tolerance));
        EXPECT_EQ(there[1], here[1]);
        EXPECT_EQ(there[2], here[2]);
        EXPECT_EQ(results(x, positions, gpu), there) << "another time";
      }
}

// A cache of (n, capacity, heads, d), whose keys are read as vectors, and one without a unit stride.
TEST_F(CudaCachedAttentionSizes, ReadsAnyStrides) {
  for (const auto& [from, to_dim] : {std::pair{1, 2}, {2, 3}}) {
    SCOPED_TRACE(from);
    const NoGrad no_grad;
    const std::int64_t d = 64, capacity = 600;
    const Tensor q = random_tensor({1, 4, 3, d}, DType::bf16), k = random_tensor({1, 4, 3, d}, DType::bf16);
    const Tensor keys = random_tensor({1, 4, capacity, d}, DType::bf16), positions = full({1}, 500, DType::i64);
    const auto strided = [a = from, b = to_dim](const Tensor& v) {
      return transpose(contiguous(transpose(v, a, b)), a, b);
    };
    const auto on = [](const Tensor& v) { return to(v, gpu); };
    const Tensor same = cached_attention(on(q), on(k), on(k), on(keys), clone(on(keys)), on(positions));
    const Tensor other_keys = strided(on(keys)), other_values = strided(on(keys));
    const Tensor y = cached_attention(strided(on(q)), strided(on(k)), on(k), other_keys, other_values, on(positions));
    EXPECT_EQ(y.to_vector<double>(), same.to_vector<double>());
    EXPECT_EQ(other_keys.to_vector<double>(), other_values.to_vector<double>());
  }
}

TEST_F(CudaCachedAttentionSizes, PassesNonFiniteScoresOn) {
  const Tensor q = to(ones({1, 1, 1, 8}), gpu), k = to(ones({1, 1, 1, 8}), gpu),
               positions = to(full({1}, 299, DType::i64), gpu);
  const Tensor values = to(ones({1, 1, 1024, 8}), gpu);
  for (const auto& [value, expected] : {std::pair{-infinity, 1.0}, {std::nan(""), std::nan("")}}) {
    const Tensor keys = to(full({1, 1, 1024, 8}, value), gpu);  // all but the new token's
    const Tensor y = cached_attention(q, k, k, keys, clone(values), positions);
    EXPECT_TRUE(all_close(y.to_vector<double>(), std::vector<double>(8, expected)));
  }
}

using CudaCachedAttentionFault = GpuTest;
TEST_F(CudaCachedAttentionFault, OfAClusterIsReportedOnce) {
  const Tensor x = to(ones({1, 2, 1, 64}), gpu), keys = zeros({1, 2, 1024, 64}, DType::f32, gpu),
               values = zeros_like(keys);
  const Tensor y = cached_attention(x, x, x, keys, values, to(full({1}, 1024, DType::i64), gpu));
  EXPECT_THROWS_SAYING(y.to_vector<double>(), ValueError, "position 1024 of a row is not in [0, 1024)");
  EXPECT_EQ((sum(abs(keys)) + sum(abs(values)) + sum(abs(y))).item<double>(), 0);
}
TEST_F(CudaCachedAttentionFault, LeavesTheCacheAlone) {
  const Tensor x = to(ones({3, 1, 2, 4}), gpu), keys = zeros({3, 1, 5, 4}, DType::f32, gpu), values = zeros_like(keys);
  const Tensor positions = to(from_vector(std::vector<std::int64_t>{0, 4, 9}), gpu);
  const Tensor y = cached_attention(x, x, x, keys, values, positions);
  EXPECT_THROWS_SAYING(y.to_vector<double>(), ValueError, "cached_attention: position 4 of a row is not in [0, 4)");
  EXPECT_EQ((sum(abs(keys)) + sum(abs(values)) + sum(abs(y))).item<double>(), 0);
}

}  // namespace
}  // namespace bytetape::test
