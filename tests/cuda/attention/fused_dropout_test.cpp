// Tests dropout by cuDNN's fused attention. cuDNN draws its own mask, which must be the same in all passes of a call.
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "bytetape/autograd/capture.h"
#include "bytetape/autograd/ops/attention/attention.h"
#include "bytetape/bytetape.h"
#include "tests/cuda/attention/expect_tensors.h"
#include "tests/cuda/gpu.h"
#include "tests/support/predict_cases.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

struct Case {
  std::int64_t b, h, g, n, m, d = 64, e = 64;
  bool causal = false;
  double p = 0.3;

  AttentionOptions options() const { return {.causal = causal, .dropout = p}; }
};

class CudaFusedDropout : public GpuTest {
 protected:
#ifdef BYTETAPE_WITHOUT_CUDNN
  void SetUp() override { GTEST_SKIP() << "this build has no cuDNN"; }
#endif
  static Tensor heads(std::int64_t b, std::int64_t count, std::int64_t tokens, std::int64_t width, DType dtype) {
    return to(transpose(random_tensor({b, tokens, count, width}, dtype), 1, 2), gpu);
  }
  static std::vector<Tensor> inputs(const Case& c, DType dtype) {
    std::vector<Tensor> x{heads(c.b, c.h, c.n, c.d, dtype), heads(c.b, c.g, c.m, c.d, dtype),
                          heads(c.b, c.g, c.m, c.e, dtype)};
    for (Tensor& t : x) t = t.detach().set_requires_grad();
    return x;
  }
  static Tensor attend(const Case& c, const std::vector<Tensor>& x) {
    manual_seed(5);
    return scaled_dot_product_attention(x[0], x[1], x[2], c.options());
  }
  /// y, and the gradients of q, k and v.
  static std::vector<Tensor> results(const Tensor& y, const std::vector<Tensor>& x, const Tensor& gy) {
    std::vector<Tensor> all = grad({y}, x, {.seeds = {gy}});
    all.insert(all.begin(), y.detach());
    return all;
  }
  /// The gradients of the sum of the squares of the gradients.
  static std::vector<Tensor> second(const Tensor& y, const std::vector<Tensor>& x, const Tensor& gy) {
    Tensor squares = zeros({}, accumulated(gy.dtype()), gpu);
    for (const Tensor& g : grad({y}, x, {.seeds = {gy}, .create_graph = true}))
      squares = squares + sum(to(g * g, squares.dtype()));
    return grad({squares}, x);
  }
  /// Returns 1 for each probability (b, h, n, m) that attend() keeps, in f64. Attention with equal scores to the
  /// columns of an identity shows it.
  static Tensor kept(const Case& c, DType dtype) {
    const NoGrad no_grad;
    const Tensor q = zeros({c.b, c.h, c.n, c.d}, dtype, gpu), k = zeros({c.b, c.g, c.m, c.d}, dtype, gpu);
    std::vector<Tensor> columns;
    for (std::int64_t j = 0; j < c.m; j += c.e) {
      Tensor v = zeros({c.m, c.e}, dtype, gpu);
      for (std::int64_t i = j; i < std::min(j + c.e, c.m); ++i) fill_(narrow(narrow(v, 0, i, 1), 1, i - j, 1), 1);
      const Tensor y = attend(c, {q, k, expand(v, {c.b, c.g, c.m, c.e})});
      columns.push_back(narrow(y, 3, 0, std::min(c.e, c.m - j)) != 0);
    }
    return to(cat(columns, 3), DType::f64);
  }
  static std::vector<Tensor> in_f64(const std::vector<Tensor>& inputs) {
    std::vector<Tensor> x;
    for (const Tensor& t : inputs) x.push_back(to(t.detach(), DType::f64).set_requires_grad());
    return x;
  }
  /// attend() of matrix products, with a mask.
  static Tensor products(const Case& c, const std::vector<Tensor>& x, const Tensor& kept) {
    const auto repeated = [&](const Tensor& t) {
      const Tensor all = expand(unsqueeze(t, 2), {c.b, c.g, c.h / c.g, c.m, t.size(3)});
      return reshape(all, {c.b, c.h, c.m, t.size(3)});
    };
    Tensor scores = matmul(x[0], transpose(repeated(x[1]), -2, -1)) / std::sqrt(static_cast<double>(c.d));
    if (c.causal) {
      const Tensor at = arange(c.n, DType::i64, gpu);
      scores = where(unsqueeze(at, 1) >= arange(c.m, DType::i64, gpu), scores, -1e300);
    }
    return matmul(softmax(scores, -1) * kept / (1 - c.p), repeated(x[2]));
  }
};

TEST_F(CudaFusedDropout, DropsTheSameInForwardAndBackward) {
  for (const Case& c : {Case{2, 3, 3, 64, 128}, Case{2, 4, 2, 65, 300, 64, 32}, Case{1, 2, 2, 2, 2, 8, 8},
                        Case{2, 2, 1, 200, 200, 128, 128, true, 0.1}, Case{1, 2, 2, 257, 129, 40, 96, true, 0.9},
                        Case{70, 4, 2, 640, 1400}})  // the last one in two chunks
    for (const auto& [dtype, tolerance] : {std::pair{DType::bf16, 2e-2}, {DType::f16, 4e-3}}) {
      SCOPED_TRACE(detail::concat(dtype, " n", c.n, " m", c.m, " d", c.d, c.causal ? " causal" : ""));
      const auto x = inputs(c, dtype);
      const Tensor gy = heads(c.b, c.h, c.n, c.e, dtype);
      const auto actual = results(attend(c, x), x, gy), exact = in_f64(x);
      const Tensor y = products(c, exact, kept(c, dtype));
      expect_close(actual, results(y, exact, to(gy, DType::f64)), tolerance);
      expect_equal(results(attend(c, x), x, gy), actual);
    }
}

// With cuDNN 9.14, every second one of eight queries has the same mask, so a quarter of the weights is drawn.
TEST_F(CudaFusedDropout, KeepsEachWeightByChance) {
  const auto sigma = [](double probability, std::int64_t drawn) {
    return std::sqrt(probability * (1 - probability) / static_cast<double>(drawn));
  };
  for (const double p : {0.001, 0.1, 0.5}) {
    const Case c{.b = 4, .h = 6, .g = 6, .n = 256, .m = 256, .p = p};
    const Tensor mask = kept(c, DType::bf16);
    EXPECT_NEAR(mean(mask).item<double>(), 1 - p, 5 * sigma(p, mask.numel() / 4)) << p;
    const auto expect_independent = [&](std::int64_t dim, std::int64_t i) {
      const Tensor a = narrow(mask, dim, 0, 1), b = narrow(mask, dim, i, 1);
      const double both = 2 * p * (1 - p);  // the probability that two weights are not both kept or both dropped
      EXPECT_NEAR(mean(to(a != b, DType::f64)).item<double>(), both,
                  5 * sigma(both, dim == 2 ? a.numel() : a.numel() / 4))
          << p << ' ' << dim << ' ' << i;
    };
    for (const int dim : {0, 1, 2, 3}) expect_independent(dim, mask.size(dim) - 1);
    for (const std::int64_t i : {1, 8, 64, 128}) expect_independent(2, i);
    for (const std::int64_t i : {1, 2, 8, 64, 128}) expect_independent(3, i);
  }
}

TEST_F(CudaFusedDropout, HasAMaskForEachChunk) {
  const Case c{70, 4, 2, 640, 1400};
  const Tensor mask = kept(c, DType::bf16);
  for (std::int64_t i = 1; i < c.b; ++i)
    EXPECT_NE(mean(to(narrow(mask, 0, 0, 1) != narrow(mask, 0, i, 1), DType::f64)).item<double>(), 0) << i;
}

TEST_F(CudaFusedDropout, DrawsAnewInEachCallAndReplay) {
  const Case c{2, 4, 4, 64, 64};
  const auto x = inputs(c, DType::bf16);
  const Tensor gy = heads(c.b, c.h, c.n, c.e, DType::bf16);
  const auto step = [&] {
    const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], c.options());
    return grad({y}, {x[0]}, {.seeds = {gy}})[0];
  };
  manual_seed(9);
  std::vector<std::vector<double>> plain;
  for (int i = 0; i < 4; ++i) plain.push_back(step().to_vector<double>());
  for (std::size_t i = 1; i < plain.size(); ++i) EXPECT_NE(plain[i], plain[i - 1]);
  manual_seed(9);
  auto captured = capture(step);
  for (const auto& values : plain) EXPECT_EQ(captured().to_vector<double>(), values);
}

TEST_F(CudaFusedDropout, DrawsTheSameAgainInACheckpoint) {
  const Case c{2, 4, 4, 64, 100};
  const auto x = inputs(c, DType::bf16);
  const Tensor gy = heads(c.b, c.h, c.n, c.e, DType::bf16);
  const auto gradients = [&](const auto& f) {
    manual_seed(5);
    return grad({f(x[0], x[1], x[2])}, x, {.seeds = {gy}});
  };
  const auto once = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return scaled_dot_product_attention(q, k, v, c.options());
  };
  const auto again = [&](const Tensor& q, const Tensor& k, const Tensor& v) { return checkpoint(once, q, k, v); };
  expect_equal(gradients(again), gradients(once));
}

TEST_F(CudaFusedDropout, HasASecondDerivative) {
  for (const Case& c : {Case{2, 4, 2, 33, 70, 64, 32, true}, Case{1, 2, 2, 20, 300, 16, 64}}) {
    const auto x = inputs(c, DType::bf16);
    const Tensor gy = heads(c.b, c.h, c.n, c.e, DType::bf16);
    const auto exact = in_f64(x);
    const Tensor y = products(c, exact, kept(c, DType::bf16));
    expect_close(second(attend(c, x), x, gy), second(y, exact, to(gy, DType::f64)), 4e-2);
  }
}

// The cases have one chunk, two chunks, and a mask that a second derivative stores.
TEST_F(CudaFusedDropout, TakesTheMemoryThatIsPredicted) {
  for (const bool twice : {false, true})
    for (const Case& c : {Case{2, 4, 2, 65, 130}, Case{70, 4, 2, 640, 1400}}) {
      if (twice && c.b > 2) continue;
      const auto build = [=]() -> std::function<void()> {
        std::vector<Tensor> x;
        for (const Shape& shape : {Shape{c.b, c.h, c.n, c.d}, Shape{c.b, c.g, c.m, c.d}, Shape{c.b, c.g, c.m, c.e}})
          x.push_back(to(randn(shape), DType::bf16).set_requires_grad());
        return [=] {
          const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], c.options());
          const std::vector<Tensor> g = grad({y}, x, {.seeds = {ones_like(y)}, .create_graph = twice});
          if (twice) grad({sum(g[0] * g[0])}, x);
        };
      };
      expect_as_predicted({detail::concat("b", c.b, twice ? " twice" : ""), build}, gpu);
    }
}

TEST_F(CudaFusedDropout, DropsTheSameUnderRecompute) {
  const Case c{2, 4, 4, 64, 100};
  const auto x = inputs(c, DType::bf16);
  const Tensor gy = heads(c.b, c.h, c.n, c.e, DType::bf16);
  const auto expected = results(attend(c, x), x, gy);
  const Recompute recompute;
  expect_equal(results(attend(c, x), x, gy), expected);
}

}  // namespace
}  // namespace bytetape::test
