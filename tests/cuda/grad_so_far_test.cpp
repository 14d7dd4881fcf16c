// Gradients that are added up in place on a GPU, beside those on the CPU.
#include <vector>

#include "bytetape/autograd/capture.h"
#include "bytetape/bytetape.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace bytetape::test {
namespace {

class CudaGradSoFar : public GpuTest {};

/// A tied weight, and two batches of tokens.
struct Tied {
  Tensor weight, tokens;
  std::vector<Tensor> step() {
    weight.set_grad({});
    for (std::int64_t i = 0; i < 2; ++i) {
      const Tensor t = tokens[i], hidden = embedding(t, weight);
      (sum(linear(hidden, weight)) + linear_cross_entropy(hidden * 0.5, weight, t)).backward();
    }
    return {weight.grad()};
  }
};

TEST_F(CudaGradSoFar, EqualsTheCpus) {
  const Tensor weight = randn({70, 24}, DType::f64), tokens = randint(0, 70, {2, 33});
  const auto gradient = [&](Device device) {
    Tied tied{clone(to(weight, device)).set_requires_grad(), to(tokens, device)};
    return tied.step()[0].to_vector<double>();
  };
  EXPECT_TRUE(all_close(gradient(gpu), gradient(Device::cpu()), 1e-9, 1e-9));
}

TEST_F(CudaGradSoFar, OfF32AddsProductsOf16Bits) {
  const Tensor weight = randn({70, 24}), tokens = randint(0, 70, {2, 33});
  const auto gradient = [&](DType computed) {
    const Autocast autocast(computed);
    Tied tied{clone(to(weight, gpu)).set_requires_grad(), to(tokens, gpu)};
    return tied.step()[0].to_vector<double>();
  };
  EXPECT_TRUE(all_close(gradient(DType::bf16), gradient(DType::f32), 5e-2, 0.5));
}

TEST_F(CudaGradSoFar, OfATableLeavesThePaddingOut) {
  const std::int64_t rows = 300, columns = 40;
  const Tensor before = randn({rows, columns}, DType::f64), gy = randn({2000, columns}, DType::f64),
               tokens = randint(0, 20, 2000);
  for (const DType dtype : {DType::f64, DType::f32}) {
    const auto gradient = [&](Device device, std::int64_t padding) {
      Tensor weight = zeros({rows, columns}, dtype, device).set_requires_grad();
      const Tensor held = to(to(clone(before), dtype), device);
      weight.set_grad(held);
      embedding(to(tokens, device), weight, {.padding_idx = padding}).backward(to(to(gy, dtype), device));
      EXPECT_TRUE(weight.grad().is_same(held));
      return weight.grad();
    };
    for (const std::int64_t padding : {0, 7, 19, 299}) {
      const double tolerance = dtype == DType::f64 ? 1e-9 : 1e-3;
      const Tensor found = gradient(gpu, padding);
      EXPECT_TRUE(all_close(found, gradient(Device::cpu(), padding), tolerance, tolerance)) << padding;
      EXPECT_EQ(found[padding].to_vector<double>(), to(before, dtype)[padding].to_vector<double>()) << padding;
      EXPECT_EQ(found.to_vector<double>(), gradient(gpu, padding).to_vector<double>()) << padding;
    }
  }
}

TEST_F(CudaGradSoFar, CapturedEqualsPlain) {
  const Tensor weight = randn({70, 24}), tokens = randint(0, 70, {2, 33});
  Tied tied{clone(to(weight, gpu)).set_requires_grad(), to(tokens, gpu)};
  const auto expected = tied.step()[0].to_vector<float>();
  auto captured = capture([&] { return tied.step(); });
  for (int i = 0; i < 5; ++i) {
    const std::vector<Tensor> found = captured();
    EXPECT_EQ(found[0].to_vector<float>(), expected) << i;
  }
}

}  // namespace
}  // namespace bytetape::test
