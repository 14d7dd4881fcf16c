// cuDNN's fused attention beside attention in f64, over a grid of shapes and layouts.
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "bytetape/autograd/capture.h"
#include "bytetape/autograd/ops/attention/attention.h"
#include "bytetape/bytetape.h"
#include "tests/cuda/attention/expect_tensors.h"
#include "tests/cuda/gpu.h"
#include "tests/support/events.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

struct Case {
  std::int64_t b, h, g, n, m, d = 64, e = 64;
  bool causal = false;
};

std::vector<Case> grid() {
  std::vector<Case> all;
  for (const std::int64_t n : {1, 2, 63, 64, 65, 200, 257})
    for (const std::int64_t m : {2, 31, 128, 129, 300})
      for (const bool causal : {false, true}) all.push_back({2, 3, 3, n, m, 64, 64, causal});
  for (const std::int64_t d : {8, 24, 40, 80, 96, 120, 128}) all.push_back({1, 2, 2, 130, 70, d, 136 - d, true});
  for (const std::int64_t g : {1, 2, 4}) all.push_back({2, 8, g, 100, 150, 64, 32, g == 2});
  all.push_back({1, 1, 1, 3000, 3000, 64, 64, true});
  all.push_back({40, 4, 2, 640, 1400, 64, 64, false});  // several chunks in backward
  return all;
}

class CudaFusedAttention : public GpuTest {
 protected:
#ifdef BYTETAPE_WITHOUT_CUDNN
  void SetUp() override { GTEST_SKIP() << "this build has no cuDNN"; }
#endif
  /// Gradients of q, k and v, and y.
  static std::vector<Tensor> results(const std::vector<Tensor>& values, const Tensor& gy,
                                     const AttentionOptions& options, DType dtype) {
    std::vector<Tensor> x;
    for (const Tensor& v : values) x.push_back(to(v, dtype).detach().set_requires_grad());
    const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], options);
    std::vector<Tensor> all = grad({y}, x, {.seeds = {to(gy, dtype)}});
    all.push_back(y.detach());
    return all;
  }
};

TEST_F(CudaFusedAttention, EqualsF64) {
  for (const Case& c : grid())
    for (const auto& [dtype, tolerance] : {std::pair{DType::bf16, 2e-2}, {DType::f16, 4e-3}}) {
      SCOPED_TRACE(detail::concat(dtype, " b", c.b, " h", c.h, " g", c.g, " n", c.n, " m", c.m, " d", c.d, " e", c.e,
                                  c.causal ? " causal" : ""));
      const auto heads = [&, t = dtype](std::int64_t count, std::int64_t tokens, std::int64_t width) {
        return to(transpose(random_tensor({c.b, tokens, count, width}, t), 1, 2), gpu);
      };
      const std::vector<Tensor> values{heads(c.h, c.n, c.d), heads(c.g, c.m, c.d), heads(c.g, c.m, c.e)};
      const Tensor gy = heads(c.h, c.n, c.e);
      const auto actual = results(values, gy, {.causal = c.causal}, dtype),
                 again = results(values, gy, {.causal = c.causal}, dtype),
                 expected = results(values, gy, {.causal = c.causal}, DType::f64);
      for (std::size_t i = 0; i < 4; ++i) {
        SCOPED_TRACE(i);
        expect_close(actual[i], expected[i], tolerance);
      }
      expect_equal(again, actual);
    }
}

// The plan keeps such a head size from cuDNN. If it did not, an error would say so, and nothing else would run instead.
TEST_F(CudaFusedAttention, TakesAnyStridesAndAddresses) {
  const std::vector<Tensor> dense{to(random_tensor({2, 3, 40, 64}, DType::bf16), gpu),
                                  to(random_tensor({2, 3, 50, 64}, DType::bf16), gpu),
                                  to(random_tensor({2, 3, 50, 64}, DType::bf16), gpu)};
  const Tensor gy = to(random_tensor({2, 3, 40, 64}, DType::bf16), gpu);
  const auto expected = results(dense, gy, {.scale = 0.3}, DType::bf16);
  const auto one_element_in = [](const Tensor& x) {
    const Tensor memory = empty({x.numel() + 1}, x.dtype(), x.device());
    const Tensor y = view(narrow(memory, 0, 1, x.numel()), x.shape());
    copy_(y, x);
    return y;
  };
  const auto transposed = [](const Tensor& x) { return transpose(contiguous(transpose(x, 2, 3)), 2, 3); };
  const auto with_gaps = [](const Tensor& x) { return narrow(cat({x, x}, 3), 3, 0, x.size(3)); };
  for (const auto& change : std::vector<std::function<Tensor(const Tensor&)>>{one_element_in, transposed, with_gaps}) {
    std::vector<Tensor> x;
    for (const Tensor& v : dense) x.push_back(change(v).detach().set_requires_grad());
    const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], {.scale = 0.3});
    std::vector<Tensor> all = grad({y}, x, {.seeds = {change(gy)}});
    all.push_back(y.detach());
    expect_equal(all, expected);
  }
}

TEST_F(CudaFusedAttention, GivesEachGradientWithoutTheOthers) {
  const auto heads = [] { return to(random_tensor({2, 2, 70, 32}, DType::bf16), gpu); };
  const std::vector<Tensor> values{heads(), heads(), heads()};
  const Tensor gy = heads();
  const auto all = results(values, gy, {.causal = true}, DType::bf16);
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<Tensor> x{values};
    x[i] = x[i].detach().set_requires_grad();
    const Tensor y = scaled_dot_product_attention(x[0], x[1], x[2], {.causal = true});
    expect_equal(grad({y}, {x[i]}, {.seeds = {gy}}), {all[i]});
  }
}

TEST_F(CudaFusedAttention, PackedProjectionsNeedNoCopies) {
  const Tensor qkv = to(random_tensor({2, 48, 3 * 4 * 32}, DType::bf16), gpu).set_requires_grad();
  const auto heads = [](const Tensor& part) { return transpose(view(part, {2, 48, 4, 32}), 1, 2); };
  const auto attend = [&](const Tensor& x) {
    const std::vector<Tensor> parts = chunk(x, 3, -1);
    return scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]), {.causal = true});
  };
  Tensor y = attend(qkv);
  const Tensor gy = to(random_tensor(y.shape(), DType::bf16), gpu);
  const Tensor packed = grad({y}, {qkv}, {.seeds = {gy}})[0];
  std::vector<Tensor> leaves;
  for (const Tensor& part : chunk(qkv.detach(), 3, -1)) leaves.push_back(contiguous(heads(part)).set_requires_grad());
  const auto attend_to_leaves = [&] {
    return scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], {.causal = true});
  };
  Tensor z = attend_to_leaves();
  std::vector<Tensor> joined;
  for (const Tensor& g : grad({z}, leaves, {.seeds = {gy}}))
    joined.push_back(reshape(transpose(g, 1, 2), {2, 48, 4 * 32}));
  expect_equal({packed, y.detach()}, {cat(joined, 2), z.detach()});

  const Tensor wide = to(qkv, DType::f64).detach().set_requires_grad(), expected = attend(wide);
  expect_close(packed, grad({expected}, {wide}, {.seeds = {to(gy, DType::f64)}})[0], 2e-2);

  // The graphs of cuDNN exist by now.
  const auto bytes = [](const Tensor& x) { return static_cast<std::uint64_t>(x.nbytes()); };
  const std::uint64_t part = bytes(y), log_sum = 2 * 4 * 48 * sizeof(float);
  const Allocations of_leaves = allocations_of(gpu, [&] { z = attend_to_leaves(); }),
                    of_grads = allocations_of(gpu, [&] { grad({z}, leaves, {.seeds = {gy}}); }),
                    forward = allocations_of(gpu, [&] { y = attend(qkv); }),
                    backward = allocations_of(gpu, [&] { grad({y}, {qkv}, {.seeds = {gy}}); });
  EXPECT_EQ(forward.tensors, (std::vector{part, log_sum, log_sum}));
  EXPECT_EQ(forward.workspaces, of_leaves.workspaces) << "which have no copies";
  EXPECT_EQ(of_grads.tensors, (std::vector{part, part, part}));
  EXPECT_EQ(backward.tensors, (std::vector{bytes(qkv)})) << "gradients side by side";
  EXPECT_EQ(backward.workspaces, of_grads.workspaces);
}

TEST_F(CudaFusedAttention, CapturedEqualsPlain) {
  const Tensor q = to(random_tensor({2, 4, 64, 64}, DType::bf16), gpu).set_requires_grad();
  const Tensor gy = to(random_tensor({2, 4, 64, 64}, DType::bf16), gpu);
  const auto step = [&] {
    return grad({scaled_dot_product_attention(q, q, q, {.causal = true})}, {q}, {.seeds = {gy}})[0];
  };
  const auto plain = step().to_vector<double>();
  auto captured = capture(step);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(captured().to_vector<double>(), plain);
}

TEST_F(CudaFusedAttention, IsLeftOutIfTheOptionSaysSo) {
  const Tensor q = to(random_tensor({1, 2, 33, 16}, DType::bf16), gpu);
  NoGrad no_grad;
  const Tensor fused = scaled_dot_product_attention(q, q, q, {.causal = true}),
               products = scaled_dot_product_attention(q, q, q, {.causal = true, .fused = false});
  expect_close(fused, products, 2e-2);
  EXPECT_NE(fused.to_vector<double>(), products.to_vector<double>()) << "other kernels round otherwise";
}

TEST_F(CudaFusedAttention, IsLeftOutInLayersIfTheSettingSaysSo) {
  nn::MultiheadAttention layer(32, 2);
  layer.to(gpu, DType::bf16);
  const Tensor x = to(random_tensor({2, 17, 32}, DType::bf16), gpu).set_requires_grad();
  const auto results = [&] {
    const Tensor y = layer(x, x, x);
    return std::vector<Tensor>{y.detach(), grad({y}, {x}, {.seeds = {ones_like(y)}})[0]};
  };
  const std::vector<Tensor> fused = results();
  const std::vector<Tensor> products = [&] {
    const struct Off {
      Off() { set_fused_attention(false); }
      ~Off() { set_fused_attention(true); }
    } off;
    return results();
  }();
  const std::vector<Tensor> again = results();
  for (std::size_t i = 0; i < fused.size(); ++i) {
    expect_close(products[i], fused[i], 2e-2);
    EXPECT_NE(products[i].to_vector<double>(), fused[i].to_vector<double>()) << "other kernels round otherwise";
    EXPECT_EQ(again[i].to_vector<double>(), fused[i].to_vector<double>());
  }
}

}  // namespace
}  // namespace bytetape::test
