#include "bytetape/autograd/ops/linear_cross_entropy.h"

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

struct Problem {
  Tensor x, weight, target;
  explicit Problem(std::int64_t n, std::int64_t d = 8, std::int64_t classes = 50, DType dtype = DType::f32)
      : x(to(randn({n, d}), dtype).set_requires_grad()),
        weight(to(randn({classes, d}), dtype).set_requires_grad()),
        target(randint(0, classes, n)) {}
  Tensor loss(const LinearCrossEntropyOptions& options = {}) const {
    return linear_cross_entropy(x, weight, target, options);
  }
};

/// Both take chunks one by one, so no more than one chunk of logits exists.
TEST(LinearCrossEntropy, NeverHoldsAllLogits) {
  const Problem p(4096, 8, 500);
  const std::size_t all = 4096 * 500 * sizeof(float);
  memory::reset_peaks(Device::cpu());
  const std::size_t before = memory::stats(Device::cpu()).allocated.current;
  p.loss({.chunks = 16}).backward();
  EXPECT_LT(memory::stats(Device::cpu()).allocated.peak - before, all / 4);
  memory::reset_peaks(Device::cpu());
  cross_entropy(linear(p.x, p.weight), p.target).backward();
  EXPECT_GT(memory::stats(Device::cpu()).allocated.peak - before, all);
}

TEST(LinearCrossEntropy, KeepsItsGradientsForAnotherBackward) {
  Problem p(20);
  const Tensor loss = p.loss() * 3;
  loss.backward({}, /*retain_graph=*/true);
  const auto gx = p.x.grad().to_vector<float>(), gw = p.weight.grad().to_vector<float>();
  p.x.set_grad({}), p.weight.set_grad({});
  loss.backward();
  EXPECT_EQ(p.x.grad().to_vector<float>(), gx);
  EXPECT_EQ(p.weight.grad().to_vector<float>(), gw);
}

TEST(LinearCrossEntropy, AddsToTheGradientOfATiedWeight) {
  const Problem p(20), q(20);
  Tensor w = p.weight.detach().set_requires_grad();
  const auto train = [&](const auto& loss_of) {
    const Tensor x = index_select(w, 0, p.target);
    loss_of(x).backward();
    const Tensor g = w.grad();
    w.set_grad({});
    return g;
  };
  const Tensor g = train([&](const Tensor& x) { return linear_cross_entropy(x, w, q.target); });
  const Tensor expected = train([&](const Tensor& x) { return cross_entropy(linear(x, w), q.target); });
  EXPECT_TRUE(test::all_close(g.to_vector<double>(), expected.to_vector<double>(), 1e-5, 1e-7));
}

/// 1 / 16,384 times a small probability is 0 in f16, so gradients are scaled in f32 alone.
TEST(LinearCrossEntropy, DoesNotUnderflowInF16) {
  const Problem p(16384, 4, 300, DType::f16);
  const Tensor x = to(p.x.detach(), DType::f64), w = to(p.weight.detach(), DType::f64).set_requires_grad();
  p.loss().backward();
  cross_entropy(linear(x, w), p.target).backward();
  EXPECT_TRUE(test::all_close(p.weight.grad().to_vector<double>(), w.grad().to_vector<double>(), 0.02, 2e-5));
  EXPECT_GT(max(abs(p.weight.grad())).item<double>(), 1e-4);
}

// exp(x) of such logits is infinite, or 0 for all classes.
TEST(LinearCrossEntropy, TakesLogitsOfAnySize) {
  const Problem p(20);
  for (const double by : {-500.0, 500.0}) {  // of all logits of a row
    const Tensor x = cat({p.x.detach(), full({20, 1}, by)}, 1).set_requires_grad();
    const Tensor w = cat({p.weight.detach(), ones({50, 1})}, 1).set_requires_grad();
    const Tensor loss = linear_cross_entropy(x, w, p.target), expected = p.loss();
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-3);
    const Tensor of_x = grad({loss}, {x})[0], expected_of_x = grad({expected}, {p.x})[0];
    EXPECT_TRUE(test::all_close(narrow(of_x, 1, 0, 8), expected_of_x, 1e-2, 1e-4));
  }
}

TEST(LinearCrossEntropy, ComputesProductsIn16BitsUnderAutocast) {
  const Problem p(64);
  const Autocast autocast(DType::bf16);
  const Tensor loss = p.loss();
  EXPECT_EQ(loss.dtype(), DType::f32);
  loss.backward();
  EXPECT_EQ(p.x.grad().dtype(), DType::f32);
  EXPECT_EQ(p.weight.grad().dtype(), DType::f32);
  const Tensor exact = cross_entropy(linear(p.x, p.weight), p.target);
  EXPECT_NEAR(loss.item<double>(), exact.item<double>(), 0.02);
}

TEST(LinearCrossEntropy, IsDifferentiatedTwiceUnderAutocast) {
  const Problem p(64);
  const auto second = [&] {
    const auto first = grad({p.loss()}, {p.x, p.weight}, {.create_graph = true});
    EXPECT_EQ(first[0].dtype(), DType::f32);
    EXPECT_EQ(first[1].dtype(), DType::f32);
    return grad({sum(first[0] * first[0]) + sum(first[1] * first[1])}, {p.x, p.weight});
  };
  const auto expected = second();
  const Autocast autocast(DType::bf16);
  const auto found = second();
  for (std::size_t i = 0; i < 2; ++i) {
    const double largest = max(abs(expected[i])).item<double>();
    EXPECT_TRUE(test::all_close(found[i], expected[i], 0.05, 0.05 * largest)) << i;
  }
}

TEST(LinearCrossEntropy, MayBeCheckpointed) {
  Problem p(30);
  const auto gradients = [&](const Tensor& loss) {
    loss.backward();
    const auto g = p.weight.grad().to_vector<float>();
    p.x.set_grad({}), p.weight.set_grad({});
    return g;
  };
  const auto plain = gradients(p.loss({.chunks = 2}));
  const auto again = gradients(checkpoint(
      [t = p.target](const Tensor& x, const Tensor& w) { return linear_cross_entropy(x, w, t, {.chunks = 2}); }, p.x,
      p.weight));
  EXPECT_EQ(plain, again);
}

TEST(LinearCrossEntropy, OfIgnoredTargetsAloneIsNaNWithoutGradient) {
  const Problem p(6);
  const Tensor none = full(6, -100, DType::i64), loss = linear_cross_entropy(p.x, p.weight, none);
  EXPECT_TRUE(std::isnan(loss.item<float>())) << "as in PyTorch";
  loss.backward();
  EXPECT_EQ(max(abs(p.x.grad())).item<float>(), 0);
  EXPECT_EQ(max(abs(p.weight.grad())).item<float>(), 0);
}

TEST(LinearCrossEntropy, WithoutGradientsTakesOneChunkAlone) {
  const Problem p(8192, 8, 1000);
  const NoGrad no_grad;
  const std::size_t chunk = std::size_t{8192} * 1000 * sizeof(float) / 16;  // more than products take besides
  memory::reset_peaks(Device::cpu());
  const std::size_t before = memory::stats(Device::cpu()).allocated.current;
  const double loss = p.loss({.chunks = 16}).item<double>();
  EXPECT_LT(memory::stats(Device::cpu()).allocated.peak - before, chunk * 3 / 2);
  EXPECT_NEAR(loss, cross_entropy(linear(p.x, p.weight), p.target).item<double>(), 1e-5);
}

TEST(LinearCrossEntropy, TakesManyRowsOfAWideVocabularyAtOnce) {
  const DefaultDevice here(Device::meta());
  memory::reset_peaks();
  const Tensor x = zeros({300, 2}), weight = zeros({std::int64_t{1} << 20, 2}), target = zeros({300}, DType::i64);
  const NoGrad no_grad;
  linear_cross_entropy(x, weight, target);
  EXPECT_GE(memory::stats().allocated.peak, std::size_t{512} << 20) << "128 rows of 4 MiB";
}

}  // namespace
}  // namespace bytetape
