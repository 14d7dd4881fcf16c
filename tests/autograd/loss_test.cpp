#include "bytetape/autograd/ops/loss.h"

#include <cmath>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/parallel.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::make_tensor;
using test::random_leaf;
using test::random_tensor;

Tensor classes(std::vector<std::int64_t> values) { return from_vector(values); }

// (1 - s) nll + s / c sum(-log p), of ops that are tested on their own.
Tensor composed(const Tensor& logits, const Tensor& target, double s) {
  const Tensor logp = log_softmax(logits, 1);
  std::vector<double> hot(static_cast<std::size_t>(logits.numel()), 0);
  const auto t = target.to_vector<std::int64_t>();
  const auto c = static_cast<std::size_t>(logits.size(1));
  for (std::size_t i = 0; i < t.size(); ++i)
    if (t[i] >= 0) {
      for (std::size_t j = 0; j < c; ++j) hot[i * c + j] = s / static_cast<double>(c);
      hot[i * c + static_cast<std::size_t>(t[i])] += 1 - s;
    }
  return -sum(logp * make_tensor(hot, logits.shape()), {1});
}

TEST(CrossEntropy, AgreesWithTheCompositionForwardAndBackward) {
  const Tensor target = classes({3, 0, -100, 9, 3});
  for (const std::int64_t c : {10, 16, 300})
    for (const double s : {0.0, 0.1, 1.0})
      for (const Reduction reduction : {Reduction::none, Reduction::sum, Reduction::mean}) {
        SCOPED_TRACE(detail::concat(c, " classes, smoothing ", s));
        Tensor x = random_leaf({5, c});
        const Tensor seed = reduction == Reduction::none ? random_tensor({5}) : random_tensor({});
        const Tensor losses = composed(x, target, s);
        const Tensor expected = reduction == Reduction::none  ? losses
                                : reduction == Reduction::sum ? sum(losses)
                                                              : sum(losses) / 4;
        const Tensor y = cross_entropy(x, target, {reduction, -100, s});
        EXPECT_TRUE(all_close(y, expected, 1e-12, 1e-12));
        const Tensor g = grad({expected}, {x}, {.seeds = {seed}})[0];
        EXPECT_TRUE(all_close(grad({y}, {x}, {.seeds = {seed}})[0], g, 1e-11, 1e-13));
      }
}

TEST(CrossEntropy, TakesEveryFloatAndLayout) {
  const Tensor target = classes({1, 2, 0});
  const Tensor exact = random_tensor({3, 4});
  const double expected = cross_entropy(exact, target).item<double>();
  const Tensor turned = transpose(contiguous(transpose(exact, 0, 1)), 0, 1);
  EXPECT_NEAR(cross_entropy(turned, target).item<double>(), expected, 1e-12);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Tensor loss = cross_entropy(to(exact, dtype), target);
    EXPECT_EQ(loss.dtype(), dtype);
    EXPECT_NEAR(loss.item<double>(), expected, dtype == DType::f32 ? 1e-5 : 3e-2);
  }
  const Tensor spread = make_tensor({5, 1, 9, 2, 9, 0}, {3, 2}, DType::i64);
  EXPECT_EQ(cross_entropy(exact, select(spread, 1, 1)).item<double>(),
            cross_entropy(exact, classes({1, 2, 0})).item<double>());
}

TEST(CrossEntropy, SurvivesLargeLogits) {
  const Tensor x = make_tensor({1e4, 0, -1e4, 3e4, 3e4, 0}, {2, 3}, DType::f32);
  const Tensor losses = cross_entropy(x, classes({0, 1}), {.reduction = Reduction::none});
  EXPECT_TRUE(all_close(losses.to_vector<double>(), {0, std::log(2.0)}, 1e-6, 1e-2));
}

TEST(CrossEntropy, IgnoresTargets) {
  Tensor x = random_leaf({3, 4});
  const Tensor all = classes({7, 7, 7});
  EXPECT_TRUE(std::isnan(cross_entropy(x, all, {.ignore_index = 7}).item<double>()));
  const Tensor y = cross_entropy(x, classes({1, 7, 2}), {.ignore_index = 7});
  y.backward();
  const auto g = x.grad().to_vector<double>();
  for (std::size_t j = 4; j < 8; ++j) EXPECT_EQ(g[j], 0);
  EXPECT_LT(g[1], 0);
}

TEST(CrossEntropy, NamesTheBadTarget) {
  const Tensor x = random_tensor({3, 4});
  EXPECT_THROWS_SAYING(cross_entropy(x, classes({1, 4, 0})), ValueError, "cross_entropy: target 4 is not in [0, 4)");
  EXPECT_THROWS_SAYING(cross_entropy(x, classes({1, -1, 0})), ValueError, "target -1 is not in [0, 4)");
  EXPECT_THROWS_SAYING(cross_entropy(x, classes({1, 2})), ShapeError, "got f64(3, 4) on cpu and i64(2,) on cpu");
  EXPECT_THROWS_SAYING(cross_entropy(x, random_tensor({3})), DTypeError, "class indices (i64), got f64(3,)");
  EXPECT_THROWS_SAYING(cross_entropy(random_tensor({3, 4}, DType::i32), classes({1, 2, 0})), DTypeError,
                       "expected a floating dtype, got i32(3, 4)");
  EXPECT_THROWS_SAYING(cross_entropy(x, classes({1, 2, 0}), {.label_smoothing = 1.5}), ValueError,
                       "label_smoothing must be in [0, 1], got 1.5");
  EXPECT_THROWS_SAYING(cross_entropy(x, empty({3}, DType::i64, Device::meta())), DeviceError, "different devices");
}

TEST(CrossEntropy, RunsOnMetaAndOnNothing) {
  Tensor x = empty({3, 4}, DType::f32, Device::meta());
  x.set_requires_grad();
  cross_entropy(x, empty({3}, DType::i64, Device::meta())).backward();
  EXPECT_EQ(x.grad().shape(), (Shape{3, 4}));
  EXPECT_TRUE(std::isnan(cross_entropy(empty({0, 4}), empty({0}, DType::i64)).item<double>()));
  EXPECT_EQ(cross_entropy(empty({0, 4}), empty({0}, DType::i64), {.reduction = Reduction::sum}).item<double>(), 0);
}

TEST(CrossEntropy, GivesTheSameBitsForAnyNumberOfThreads) {
  const int before = num_threads();
  Tensor x = random_leaf({3000, 37}, DType::f32);
  std::vector<std::int64_t> t(3000);
  for (std::size_t i = 0; i < t.size(); ++i) t[i] = static_cast<std::int64_t>(i * 31 % 37);
  const auto step = [&](int threads) {
    set_num_threads(threads);
    const Tensor loss = cross_entropy(x, classes(t));
    auto bits = grad({loss}, {x})[0].to_vector<float>();
    bits.push_back(loss.item<float>());
    return bits;
  };
  EXPECT_EQ(step(1), step(4));
  set_num_threads(before);
}

}  // namespace
}  // namespace bytetape
