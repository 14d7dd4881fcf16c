#include "bytetape/autograd/ops/attention/cached_attention.h"

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

Tensor random(const Shape& shape) { return test::random_tensor(shape, DType::f64); }

// Token by token, a cache gives what attention of all tokens gives; the large positions take several tiles.
TEST(CachedAttention, IsCausalAttentionTokenByToken) {
  const std::int64_t n = 2, tokens = 150;
  const Tensor q = random({n, 4, tokens, 8}), k = random({n, 2, tokens, 8}), v = random({n, 2, tokens, 8});
  const Tensor keys = full({n, 2, tokens, 8}, NAN, DType::f64), values = full_like(keys, NAN);
  const Tensor expected = scaled_dot_product_attention(q, k, v, {.causal = true});
  std::vector<Tensor> parts;
  for (std::int64_t begin = 0, t = 1; begin < tokens; begin += t, t = std::min(t + 4, tokens - begin)) {
    const auto fresh = [&](const Tensor& x) { return narrow(x, 2, begin, t); };
    parts.push_back(cached_attention(fresh(q), fresh(k), fresh(v), keys, values, full({n}, begin, DType::i64)));
  }
  EXPECT_TRUE(test::all_close(cat(parts, 2).to_vector<double>(), expected.to_vector<double>(), 1e-12, 1e-12));
  EXPECT_EQ(keys.to_vector<double>(), k.to_vector<double>());
  EXPECT_EQ(values.to_vector<double>(), v.to_vector<double>());
}

TEST(CachedAttention, WritesOnlyTheNewTokens) {
  const Tensor x = random({2, 1, 2, 3}), keys = zeros({2, 1, 5, 3}, DType::f64), values = zeros_like(keys);
  cached_attention(x, x, x, keys, values, from_vector(std::vector<std::int64_t>{1, 3}));
  Tensor expected = zeros_like(keys);
  copy_(narrow(select(expected, 0, 0), 1, 1, 2), select(x, 0, 0));
  copy_(narrow(select(expected, 0, 1), 1, 3, 2), select(x, 0, 1));
  EXPECT_EQ(keys.to_vector<double>(), expected.to_vector<double>());
  EXPECT_EQ(values.to_vector<double>(), expected.to_vector<double>());
}

TEST(CachedAttention, LeavesTheCacheAloneAfterAFault) {
  const Tensor x = random({2, 1, 2, 3}), keys = zeros({2, 1, 5, 3}, DType::f64), values = zeros_like(keys);
  for (const std::int64_t position : {-1, 4})
    EXPECT_THROWS_SAYING(cached_attention(x, x, x, keys, values, from_vector(std::vector<std::int64_t>{0, position})),
                         ValueError, "cached_attention: position " + std::to_string(position) + " of a row");
  EXPECT_EQ(sum(abs(keys)).item<double>() + sum(abs(values)).item<double>(), 0);
}

TEST(CachedAttention, FillsACacheOfTheWidestHeads) {
  const Tensor x = random({1, 1, 3, 256}), keys = zeros_like(x), values = zeros_like(x);
  const Tensor y = cached_attention(x, x, x, keys, values, zeros({1}, DType::i64));
  const Tensor expected = scaled_dot_product_attention(x, x, x, {.causal = true});
  EXPECT_TRUE(test::all_close(y.to_vector<double>(), expected.to_vector<double>(), 1e-12, 1e-12));
  EXPECT_EQ(keys.to_vector<double>(), x.to_vector<double>());
}

TEST(CachedAttention, PassesNonFiniteScoresOn) {
  const Tensor x = ones({1, 1, 1, 8}), values = ones({1, 1, 300, 8});
  for (const auto& [value, expected] : {std::pair{-INFINITY, 1.0F}, {NAN, NAN}}) {
    const Tensor keys = full({1, 1, 300, 8}, value);  // all but the new token's
    const Tensor y = cached_attention(x, x, x, keys, clone(values), full({1}, 299, DType::i64));
    EXPECT_TRUE(test::all_close(y.to_vector<double>(), std::vector<double>(8, expected)));
  }
}

TEST(CachedAttention, LaysOutHeadsInsideTokens) {
  const Tensor q = random({1, 2, 3, 4}), cache = zeros({1, 2, 3, 4}, DType::f64);
  const Tensor y = cached_attention(q, q, q, cache, clone(cache), zeros({1}, DType::i64));
  EXPECT_TRUE(transpose(y, 1, 2).is_contiguous());
}

}  // namespace
}  // namespace bytetape
