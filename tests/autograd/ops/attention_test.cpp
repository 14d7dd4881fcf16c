#include "bytetape/autograd/ops/attention/attention.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "bytetape/autograd/checkpoint.h"
#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/gradcheck.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/memory/ledger/names.h"
#include "bytetape/core/memory/stats.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"
#include "tests/support/threads.h"

namespace bytetape {
namespace {

// Multiples of 1/8, so that f32 adds up the scores without rounding, in any order.
Tensor eighths(const Shape& shape) { return round(test::random_tensor(shape) * 8) / 8; }

/// y and the gradients of q, k and v.
std::vector<Tensor> results(const Tensor& y, const std::vector<Tensor>& x, const Tensor& gy) {
  std::vector<Tensor> all = grad({y}, x, {.seeds = {gy}});
  all.push_back(y);
  return all;
}

// The scores have f32's rounding, and everything else is f64.
TEST(Attention, IsExactIfAFloatMaskIsLowForAllKeys) {
  const std::int64_t n = 4, m = 300;
  const Tensor q = eighths({1, 2, n, 16}), k = eighths({1, 2, m, 16}), v = eighths({1, 2, m, 3}),
               gy = eighths({1, 2, n, 3});
  // -1e9 leaves of the scores multiples of 64, and -20,000 multiples of 1/512.
  std::vector<double> masks;
  for (const double low : {-1e9, -20'000.0, static_cast<double>(std::numeric_limits<float>::lowest()), 0.0})
    for (std::int64_t j = 0; j < m; ++j) masks.push_back(low - (j < 200 ? 0 : 64));
  const Tensor mask = test::make_tensor(masks, {n, m});
  const auto leaves = [&](DType t) {
    std::vector<Tensor> x;
    for (const Tensor& value : {q, k, v}) x.push_back(to(value, t).detach().set_requires_grad());
    return x;
  };
  const auto narrow = leaves(DType::f32), wide = leaves(DType::f64);
  const auto actual = results(
      scaled_dot_product_attention(narrow[0], narrow[1], narrow[2], {.mask = to(mask, DType::f32), .scale = 0.5}),
      narrow, to(gy, DType::f32));
  const Tensor scores = to(to(matmul(wide[0], transpose(wide[1], -2, -1)) * 0.5 + mask, DType::f32), DType::f64);
  const auto expected = results(matmul(softmax(scores, -1), wide[2]), wide, gy);
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_TRUE(test::all_close(to(actual[i], DType::f64), expected[i], 1e-5, 1e-5)) << i;
}

TEST(Attention, TakesTheDefaultOfFusedFromTheSetting) {
  EXPECT_TRUE(fused_attention());
  EXPECT_TRUE(AttentionOptions{}.fused);
  set_fused_attention(false);
  EXPECT_FALSE(AttentionOptions{}.fused);
  EXPECT_TRUE(AttentionOptions{.fused = true}.fused) << "the option has priority";
  set_fused_attention(true);
  EXPECT_TRUE(AttentionOptions{}.fused);
}

// The second run must draw the dropout of the first, which fused kernels draw otherwise.
TEST(Attention, HasTheSettingOfItsForwardInTheSecondRunOfACheckpoint) {
  std::vector<bool> seen;
  const Tensor x = test::random_tensor({3}).set_requires_grad();
  const Tensor y = checkpoint(
      [&](const Tensor& x) {
        seen.push_back(AttentionOptions{}.fused);
        return exp(x);
      },
      x);
  set_fused_attention(false);
  y.backward(ones_like(y));
  EXPECT_FALSE(fused_attention()) << "outside the checkpoint";
  set_fused_attention(true);
  EXPECT_EQ(seen, (std::vector{true, true}));
}

TEST(Attention, MaySetFusedWithinACheckpoint) {
  std::vector<bool> seen;
  const Tensor x = test::random_tensor({3}).set_requires_grad();
  const Tensor y = checkpoint(
      [&](const Tensor& x) {
        set_fused_attention(false);
        seen.push_back(AttentionOptions{}.fused);
        set_fused_attention(true);
        seen.push_back(AttentionOptions{}.fused);
        return exp(x);
      },
      x);
  y.backward(ones_like(y));
  EXPECT_EQ(seen, (std::vector{false, true, false, true}));
  EXPECT_TRUE(fused_attention());
}

// Threads share the tiles of the heads that are left over.
TEST(Attention, ThreadsShareAHeadWithoutChangingABit) {
  struct Case {
    std::int64_t h, g, n, m;
    bool is_causal;
  };
  for (const Case& c : {Case{1, 1, 400, 700, false},
                        {1, 1, 700, 600, true},
                        {4, 1, 130, 600, false},
                        {4, 2, 330, 300, true},
                        {1, 1, 70, 900, true},
                        {3, 3, 1, 600, false}})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(detail::concat(c.h, ' ', c.g, ' ', c.n, ' ', c.m, c.is_causal ? " causal " : " ", dtype));
      const auto leaf = [&](std::int64_t heads, std::int64_t tokens) {
        return test::random_tensor({1, heads, tokens, 8}, dtype).set_requires_grad();
      };
      const std::vector<Tensor> x{leaf(c.h, c.n), leaf(c.g, c.m), leaf(c.g, c.m)};
      const Tensor gy = test::random_tensor({1, c.h, c.n, 8}, dtype);
      const auto run_on = [&](int threads) {
        return test::with_threads(threads, [&] {
          const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], {.causal = c.is_causal});
          return results(y, x, gy);
        });
      };
      const auto one = run_on(1);
      for (const int threads : {2, 3, 5, 8}) {
        const auto some = run_on(threads);
        for (std::size_t i = 0; i < one.size(); ++i)
          EXPECT_EQ(some[i].to_vector<float>(), one[i].to_vector<float>()) << threads << " threads, result " << i;
      }
    }
}

TEST(Attention, ThatDropsAllWeightsIs0) {
  const std::vector<Tensor> x{test::random_leaf({1, 2, 4, 3}), test::random_leaf({1, 2, 5, 3}),
                              test::random_leaf({1, 2, 5, 2})};
  const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], {.dropout = 1});
  for (const Tensor& zero : results(y, x, ones_like(y)))
    EXPECT_EQ(zero.to_vector<double>(), std::vector<double>(static_cast<std::size_t>(zero.numel()), 0));
}

TEST(Attention, OfQueriesWithoutKeysIs0) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor mask = test::make_tensor({-inf, 0, -inf, 0, -inf, -inf}, {3, 2});
  std::vector<Tensor> x;
  for (int i = 0; i < 3; ++i) x.push_back(test::random_tensor({1, 1, i == 0 ? 3 : 2, 4}).set_requires_grad());
  const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], {.mask = mask});
  const auto all = results(y, x, ones_like(y));
  for (const Tensor& t : all)
    for (const double value : t.to_vector<double>()) EXPECT_TRUE(std::isfinite(value));
  for (const Tensor& t : {all[0], all[3]}) EXPECT_EQ(select(t, 2, 2).to_vector<double>(), std::vector<double>(4, 0));
  for (const Tensor& t : {all[1], all[2]}) EXPECT_EQ(select(t, 2, 0).to_vector<double>(), std::vector<double>(4, 0));
}

TEST(Attention, OfQueriesWithoutKeysHasSecondDerivatives) {
  const Tensor k = test::random_leaf({1, 2, 4, 3}), v = test::random_leaf({1, 2, 4, 5}),
               q = test::random_leaf({1, 2, 3, 3}), seed = test::random_tensor({1, 2, 3, 5});
  const Tensor allowed = to(test::make_tensor({1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0}, {3, 4}), DType::boolean),
               added = where(allowed, zeros({}, DType::f64), -std::numeric_limits<double>::infinity());
  const auto rows = [](const Tensor& x) { return cat({narrow(x, 2, 0, 1), narrow(x, 2, 2, 1)}, 2); };
  const auto second = [&](const Tensor& of_q, const Tensor& of_mask, const Tensor& gy) {
    const Tensor y = scaled_dot_product_attention(of_q, k, v, {.mask = of_mask});
    const std::vector<Tensor> first = grad({y}, {q, k, v}, {.seeds = {gy}, .create_graph = true});
    Tensor total = zeros({}, DType::f64);
    for (const Tensor& g : first) total = total + sum(g * g);
    return grad({total}, {q, k, v});
  };
  for (const Tensor& mask : {allowed, added}) {
    const Tensor of_others = cat({narrow(mask, 0, 0, 1), narrow(mask, 0, 2, 1)}, 0);
    const std::vector<Tensor> whole = second(q, mask, seed), others = second(rows(q), of_others, rows(seed));
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(test::all_close(whole[i], others[i], 1e-10, 1e-10)) << i;
  }
}

// A projection of each token, (b, n, 3 h d): q, k and v are views of it, and so are their gradients.
TEST(Attention, PackedProjectionsNeedNoCopies) {
  const std::int64_t b = 2, n = 5, h = 3, d = 4;
  const auto heads = [=](const Tensor& part) { return transpose(view(part, {b, n, h, d}), 1, 2); };
  const auto attend = [=](const std::vector<Tensor>& parts) {
    return scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]), {.causal = true});
  };
  const auto of_chunks = [=](const std::vector<Tensor>& x) { return attend(chunk(x[0], 3, -1)); };
  const auto of_slices = [=](const std::vector<Tensor>& x) {
    const Tensor slices = view(x[0], {b, n, 3, h, d});
    return attend({select(slices, 2, 0), select(slices, 2, 1), select(slices, 2, 2)});
  };
  const std::vector<Tensor> qkv{test::random_leaf({b, n, 3 * h * d})};
  for (const auto& f : {TensorFunction(of_chunks), TensorFunction(of_slices)}) {
    const GradcheckResult result = gradcheck(f, qkv);
    EXPECT_TRUE(result) << result.message;
  }

  std::vector<Tensor> leaves;
  for (const Tensor& part : chunk(qkv[0].detach(), 3, -1)) leaves.push_back(contiguous(part).set_requires_grad());
  const Tensor gy = test::random_tensor({b, h, n, d});
  Tensor y, z, g;
  std::vector<Tensor> joined;
  const auto allocations = [](const auto& f) { return test::allocations_of(Device::cpu(), f); };
  const auto of_leaves = allocations([&] { z = attend(leaves); }),
             of_grads = allocations([&] { joined = grad({z}, leaves, {.seeds = {gy}}); }),
             of_view = allocations([&] { y = of_slices(qkv); }), forward = allocations([&] { y = of_chunks(qkv); }),
             backward = allocations([&] { g = grad({y}, qkv, {.seeds = {gy}})[0]; });
  EXPECT_EQ(y.to_vector<double>(), z.to_vector<double>());
  EXPECT_EQ(g.to_vector<double>(), cat(joined, 2).to_vector<double>());
  const std::uint64_t part = b * n * h * d * sizeof(double), log_sum = b * h * n * sizeof(double);
  for (const test::Allocations& a : {forward, of_view}) {
    EXPECT_EQ(a.tensors, (std::vector{part, log_sum, log_sum}));
    EXPECT_EQ(a.workspaces, of_leaves.workspaces) << "which have no copies";
  }
  EXPECT_EQ(of_grads.tensors, (std::vector{part, part, part}));
  EXPECT_EQ(backward.tensors, (std::vector{3 * part})) << "gradients side by side";
  EXPECT_EQ(backward.workspaces, of_grads.workspaces);
}

TEST(Attention, NamesTheLogSumExpOnTheLedger) {
  const memory::NameId name = memory::intern("attention log-sum-exp");
  const auto held = [&] {
    const memory::Snapshot s = memory::snapshot(Device::cpu());
    if (name >= s.by_op.size()) return std::size_t{0};
    return std::accumulate(s.by_op[name].begin(), s.by_op[name].end(), std::size_t{0});
  };
  const std::size_t before = held();
  const Tensor q = test::random_leaf({2, 3, 100, 4}), k = test::random_leaf({2, 3, 7, 4});
  Tensor y = scaled_dot_product_attention(q, k, k);
  EXPECT_EQ(held() - before, 2 * test::rounded(2 * 3 * 100 * sizeof(double)));
  EXPECT_STREQ(memory::name_of(test::op_of(y)).c_str(), "scaled_dot_product_attention");
  y = Tensor();
  EXPECT_EQ(held(), before);
}

}  // namespace
}  // namespace bytetape
