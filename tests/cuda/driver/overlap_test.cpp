// Kernels of captured steps that overlap, and read early what earlier ones do not write.
#include "bytetape/cuda/runtime/overlap.h"

#include <cmath>
#include <vector>

#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

using CudaOverlap = GpuTest;

constexpr std::int64_t width = 512, columns = 64;

/// Products whose weights are results of products just before, and layer norms whose coefficients are.
struct Chain {
  std::vector<Tensor> weights;
  Tensor bias = to(random_tensor({columns * width}, DType::bf16), gpu);

  explicit Chain(int length) {
    for (int i = 0; i < length; ++i)
      weights.push_back(to(random_tensor({columns * width, columns}, DType::bf16), gpu) * 0.1);
  }
  /// For x (1, columns).
  Tensor operator()(const Tensor& x) const {
    const NoGrad no_grad;
    const Tensor fixed = ones({1, width}, DType::bf16, gpu);
    Tensor y = x;
    for (const Tensor& w : weights) {
      const Tensor made = view(linear(y, w, bias), {columns, width});
      const Tensor row = view(select(made, 0, 3), {1, width});
      const Tensor normalised = add_layer_norm(row, fixed, {width}, select(made, 0, 1), select(made, 0, 2)).y;
      y = layer_norm(linear(normalised, made, {}, Activation::relu), {columns});
    }
    return y;
  }
};

TEST_F(CudaOverlap, GivesTheBitsOfEagerKernels) {
  const NoGrad no_grad;
  const Chain chain(12);
  auto captured = capture([&](const Tensor& x) { return chain(x); });
  for (int i = 0; i < 300; ++i) {
    const Tensor x = to(random_tensor({1, columns}, DType::bf16), gpu);
    const auto y = captured(x).to_vector<double>();
    ASSERT_TRUE(std::isfinite(y.front()));
    ASSERT_EQ(y, chain(x).to_vector<double>()) << "step " << i;
  }
}

TEST_F(CudaOverlap, ReadsEarlyOnlyWhatRunningKernelsDoNotWrite) {
  const NoGrad no_grad;
  if (!cuda::can_overlap(gpu)) GTEST_SKIP() << "kernels do not overlap on this GPU";
  const Tensor x = to(random_tensor({1, columns}, DType::bf16), gpu),
               w = to(random_tensor({width, columns}, DType::bf16), gpu);
  const auto may_read = [](const Tensor& t) { return cuda::may_read_early(t.read()); };
  Tensor y, more, outside;
  bool before = true, own = true, others = false, part = true, later = true, after_another = true;
  auto captured = capture([&] {
    outside = x + 1;
    before = may_read(w);
    y = linear(x, w);
    own = may_read(y);
    part = may_read(narrow(y, 1, 7, 1));
    others = may_read(w) && may_read(x);
    more = linear(x, w);
    later = may_read(y);
    outside = x + 2;
    after_another = may_read(w);
  });
  for (int i = 0; i < 4; ++i) captured();
  EXPECT_FALSE(before) << "an ordinary kernel ran before";
  EXPECT_FALSE(own);
  EXPECT_FALSE(part);
  EXPECT_TRUE(others);
  EXPECT_FALSE(later) << "two kernels may be running";
  EXPECT_FALSE(after_another);
  linear(x, w);
  EXPECT_FALSE(may_read(w)) << "nothing is recorded";
}

TEST_F(CudaOverlap, ForgetsWritesAfterAKernelThatWaitsFirst) {
  const NoGrad no_grad;
  if (!cuda::can_overlap(gpu)) GTEST_SKIP() << "kernels do not overlap on this GPU";
  const Tensor x = to(random_tensor({1, columns}, DType::bf16), gpu),
               w = to(random_tensor({width, columns}, DType::bf16), gpu);
  std::vector<bool> may_read;
  auto captured = capture([&] {
    const Tensor y = linear(x, w);
    may_read.clear();
    std::vector<Tensor> kept;
    for (int i = 0; i < 64; ++i) {
      kept.push_back(linear(x, w));
      may_read.push_back(cuda::may_read_early(y.read()));
    }
  });
  for (int i = 0; i < 4; ++i) captured();
  EXPECT_FALSE(may_read.front());
  EXPECT_TRUE(may_read.back());
}

}  // namespace
}  // namespace bytetape::test
