// Attention in TF32 beside attention in f64, over a grid of shapes and layouts.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "bytetape/autograd/capture.h"
#include "bytetape/autograd/ops/attention/attention.h"
#include "bytetape/bytetape.h"
#include "tests/cuda/attention/expect_tensors.h"
#include "tests/cuda/gpu.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

struct Case {
  std::int64_t b, h, g, n, m, d = 64;
  bool causal = false;
};

std::vector<Case> grid() {
  std::vector<Case> all;
  for (const std::int64_t n : {1, 2, 63, 64, 65, 200, 257})
    for (const std::int64_t m : {1, 31, 64, 128, 129, 300})
      for (const bool causal : {false, true}) all.push_back({2, 3, 3, n, m, 64, causal});
  for (const std::int64_t d : {4, 20, 32, 36, 60, 68, 96, 128})
    for (const bool causal : {false, true}) all.push_back({1, 2, 2, 130, 70, d, causal});
  for (const std::int64_t g : {1, 2, 4}) all.push_back({2, 8, g, 100, 150, 64, g == 2});
  all.push_back({1, 1, 1, 3000, 3000, 64, true});
  all.push_back({3, 5, 5, 1024, 1024, 128, true});
  return all;
}

class CudaFlashAttention : public GpuTest {
 protected:
  AllowTf32 tf32{true};

  static Tensor heads(std::int64_t b, std::int64_t count, std::int64_t tokens, std::int64_t width) {
    return to(transpose(random_tensor({b, tokens, count, width}, DType::f32), 1, 2), gpu);
  }
  /// Gradients of q, k and v, and y.
  static std::vector<Tensor> results(const std::vector<Tensor>& values, const Tensor& gy,
                                     const AttentionOptions& options, DType dtype = DType::f32) {
    std::vector<Tensor> x;
    for (const Tensor& v : values) x.push_back(to(v, dtype).detach().set_requires_grad());
    const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], options);
    std::vector<Tensor> all = grad({y}, x, {.seeds = {to(gy, dtype)}});
    all.push_back(y.detach());
    return all;
  }
  /// Compares with results in f64. A gradient may be a difference of large numbers, so errors are relative to the
  /// largest of all results.
  static void expect_close(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
    constexpr double tolerance = 3e-3;  // TF32 has 10 bits
    double largest = 0;
    for (const Tensor& x : expected) largest = std::max(largest, max(abs(x)).item<double>());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      SCOPED_TRACE(i);
      EXPECT_TRUE(
          all_close(actual[i].to_vector<double>(), expected[i].to_vector<double>(), tolerance, tolerance * largest));
    }
  }
};

TEST_F(CudaFlashAttention, EqualsF64) {
  for (const Case& c : grid()) {
    SCOPED_TRACE(
        detail::concat("b", c.b, " h", c.h, " g", c.g, " n", c.n, " m", c.m, " d", c.d, c.causal ? " causal" : ""));
    const std::vector<Tensor> values{heads(c.b, c.h, c.n, c.d), heads(c.b, c.g, c.m, c.d), heads(c.b, c.g, c.m, c.d)};
    const Tensor gy = heads(c.b, c.h, c.n, c.d);
    const auto actual = results(values, gy, {.causal = c.causal}), again = results(values, gy, {.causal = c.causal});
    expect_close(actual, results(values, gy, {.causal = c.causal}, DType::f64));
    expect_equal(again, actual);
  }
}

TEST_F(CudaFlashAttention, TakesAnyScaleAndLargeScores) {
  const std::vector<Tensor> small{heads(1, 2, 70, 32), heads(1, 2, 90, 32), heads(1, 2, 90, 32)},
      large{small[0] * 100, small[1] * 100, small[2]};
  const Tensor gy = heads(1, 2, 70, 32);
  for (const double scale : {-0.3, 0.0, 0.3}) {
    SCOPED_TRACE(scale);
    expect_close(results(small, gy, {.scale = scale}), results(small, gy, {.scale = scale}, DType::f64));
    for (const Tensor& x : results(large, gy, {.scale = scale})) EXPECT_TRUE(all(isfinite(x)).item<bool>());
  }
}

TEST_F(CudaFlashAttention, TakesStridesInVectors) {
  const std::vector<Tensor> dense{heads(2, 3, 40, 64), heads(2, 3, 50, 64), heads(2, 3, 50, 64)};
  const Tensor gy = heads(2, 3, 40, 64);
  const auto expected = results(dense, gy, {});
  const auto with_gaps = [](const Tensor& x) { return narrow(cat({x, x}, 3), 3, 0, x.size(3)); };
  const auto as_rows = [](const Tensor& x) { return contiguous(x); };
  for (const auto& change : std::vector<std::function<Tensor(const Tensor&)>>{with_gaps, as_rows}) {
    std::vector<Tensor> x;
    for (const Tensor& v : dense) x.push_back(change(v).detach().set_requires_grad());
    const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2]);
    std::vector<Tensor> all = grad({y}, x, {.seeds = {change(gy)}});
    all.push_back(y.detach());
    expect_equal(all, expected);
  }
}

TEST_F(CudaFlashAttention, LeavesOtherLayoutsToProducts) {
  const std::vector<Tensor> dense{heads(2, 3, 40, 64), heads(2, 3, 50, 64), heads(2, 3, 50, 64)};
  const Tensor gy = heads(2, 3, 40, 64);
  const auto expected = results(dense, gy, {}, DType::f64);
  const auto one_element_in = [](const Tensor& x) {
    const Tensor memory = empty({x.numel() + 1}, x.dtype(), x.device());
    const Tensor y = view(narrow(memory, 0, 1, x.numel()), x.shape());
    copy_(y, x);
    return y;
  };
  const auto transposed = [](const Tensor& x) { return transpose(contiguous(transpose(x, 2, 3)), 2, 3); };
  for (const auto& change : std::vector<std::function<Tensor(const Tensor&)>>{one_element_in, transposed})
    for (std::size_t i = 0; i < 4; ++i) {  // one of q, k, v and gy
      SCOPED_TRACE(i);
      std::vector<Tensor> x;
      for (std::size_t k = 0; k < 3; ++k)
        x.push_back((k == i ? change(dense[k]) : dense[k]).detach().set_requires_grad());
      const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2]);
      std::vector<Tensor> all = grad({y}, x, {.seeds = {i == 3 ? change(gy) : gy}});
      all.push_back(y.detach());
      expect_close(all, expected);
    }
}

TEST_F(CudaFlashAttention, GivesEachGradientWithoutTheOthers) {
  const std::vector<Tensor> values{heads(2, 2, 70, 32), heads(2, 2, 70, 32), heads(2, 2, 70, 32)};
  const Tensor gy = heads(2, 2, 70, 32);
  const auto all = results(values, gy, {.causal = true});
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<Tensor> x{values};
    x[i] = x[i].detach().set_requires_grad();
    const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], {.causal = true});
    expect_equal(grad({y}, {x[i]}, {.seeds = {gy}}), {all[i]});
  }
}

TEST_F(CudaFlashAttention, BackwardTakesTheShiftsOfProducts) {
  const std::vector<Tensor> values{heads(1, 2, 70, 32), heads(1, 2, 90, 32), heads(1, 2, 90, 32)};
  const Tensor gy = heads(1, 2, 70, 32);
  std::vector<Tensor> x;
  for (const Tensor& v : values) x.push_back(v.detach().set_requires_grad());
  cuda::set_allow_tf32(false);
  const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2]);
  cuda::set_allow_tf32(true);
  std::vector<Tensor> all = grad({y}, x, {.seeds = {gy}});
  all.push_back(y.detach());
  expect_close(all, results(values, gy, {}, DType::f64));
}

TEST_F(CudaFlashAttention, BackwardTakesATensorThatComesBackInVectors) {
  const Tensor dense = heads(1, 2, 70, 32), gy = heads(1, 2, 70, 32),
               memory = empty({dense.numel() + 1}, DType::f32, gpu);
  const Tensor q = view(narrow(memory, 0, 1, dense.numel()), dense.shape());
  copy_(q, dense);
  const Tensor k = heads(1, 2, 90, 32).detach().set_requires_grad(), v = heads(1, 2, 90, 32);
  const auto gradient = [&] { return grad({scaled_dot_product_attention(q, k, v)}, {k}, {.seeds = {gy}}); };
  const std::vector<Tensor> expected = gradient();
  const SavedTensorHooks hooks(
      [](const Tensor& x) -> SavedTensorHooks::Unpack { return [copy = clone(x)] { return copy; }; });
  expect_close(gradient(), expected);
}

TEST_F(CudaFlashAttention, SkipsKeysWithScoresOfMinusInfinity) {
  const Tensor q = ones({1, 1, 5, 32}, DType::f32, gpu), k = zeros({1, 1, 100, 32}, DType::f32, gpu), v = ones_like(k);
  fill_(narrow(k, 2, 0, 64), -std::numeric_limits<double>::infinity());
  const auto y = scaled_dot_product_attention(q, k, v).to_vector<double>();
  EXPECT_TRUE(all_close(y, std::vector<double>(y.size(), 1), 1e-3));
}

TEST_F(CudaFlashAttention, QueriesThatAreNotThereAddNothing) {
  for (const std::int64_t n : {32, 33}) {  // a whole tile, and not
    const Tensor q = ones({1, 1, n, 32}, DType::f32, gpu), k = zeros({1, 1, 100, 32}, DType::f32, gpu);
    fill_(narrow(k, 2, 5, 1), -std::numeric_limits<double>::infinity());
    const Tensor v = ones_like(k).detach().set_requires_grad();
    const Tensor gv = grad({scaled_dot_product_attention(q, k, v)}, {v}, {.seeds = {ones_like(q)}})[0];
    EXPECT_EQ(max(abs(select(gv, 2, 5))).item<double>(), 0) << n;
  }
}

TEST_F(CudaFlashAttention, KeepsNansInTheirRows) {
  const Tensor q = heads(1, 1, 130, 64), k = heads(1, 1, 130, 64), v = heads(1, 1, 130, 64);
  fill_(select(select(k, 2, 70), 2, 3), std::numeric_limits<double>::quiet_NaN());
  const auto y = scaled_dot_product_attention(q, k, v, {.causal = true}).to_vector<float>();
  for (std::size_t i = 0; i < 130; ++i) EXPECT_EQ(std::isnan(y[64 * i]), i >= 70) << i;
}

TEST_F(CudaFlashAttention, CapturedEqualsPlain) {
  const Tensor q = heads(2, 4, 80, 64).detach().set_requires_grad(), gy = heads(2, 4, 80, 64);
  const auto step = [&] {
    return grad({scaled_dot_product_attention(q, q, q, {.causal = true})}, {q}, {.seeds = {gy}})[0];
  };
  const auto plain = step().to_vector<double>();
  auto captured = capture(step);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(captured().to_vector<double>(), plain);
}

TEST_F(CudaFlashAttention, HoldsNoScores) {
  const Tensor q = heads(1, 8, 2048, 64).detach().set_requires_grad();
  memory::reset_peaks();
  const std::int64_t before = memory::stats().allocated.current;
  const Tensor y = scaled_dot_product_attention(q, q, q, {.causal = true});
  grad({y}, {q}, {.seeds = {q.detach()}});
  // y, three gradients and their sum, and numbers for each row; all scores would take 134 MB.
  EXPECT_LT(memory::stats().allocated.peak - before, 6 * q.numel() * 4);
}

}  // namespace
}  // namespace bytetape::test
