#include "bytetape/autograd/ops/loss.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "bytetape/autograd/autocast.h"
#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::make_tensor;
using test::random_leaf;
using test::random_tensor;

Tensor classes(std::vector<std::int64_t> values) { return from_vector(values); }

TEST(CrossEntropy, SurvivesLargeLogits) {
  const Tensor x = make_tensor({1e4, 0, -1e4, 3e4, 3e4, 0}, {2, 3}, DType::f32);
  const Tensor losses = cross_entropy(x, classes({0, 1}), {.reduction = Reduction::none});
  EXPECT_TRUE(all_close(losses.to_vector<double>(), {0, std::log(2.0)}, 1e-6, 1e-2));
}

// The loss and its gradient are those of the other classes.
TEST(CrossEntropy, LeavesOutClassesWhoseLogitsAreMinusInfinity) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const auto run = [&](const std::vector<double>& values, const Shape& shape, const Tensor& target) {
      const Tensor x = make_tensor(values, shape, dtype).set_requires_grad(), loss = cross_entropy(x, target);
      return std::pair(loss.item<double>(), grad({loss}, {x})[0].to_vector<double>());
    };
    const auto [loss, g] = run({1, -inf, 2, -inf, 0.5, 3}, {2, 3}, classes({2, 1}));
    const auto [expected, e] = run({1, 2, 0.5, 3}, {2, 2}, classes({1, 0}));
    EXPECT_NEAR(loss, expected, 1e-6) << dtype;
    EXPECT_TRUE(all_close(g, {e[0], 0, e[1], 0, e[2], e[3]}, 1e-6, 1e-6)) << dtype;
    EXPECT_TRUE(g[1] == 0 && g[3] == 0) << dtype;
  }
  const Tensor row = full({1, 3}, -inf), target = zeros({1}, DType::i64);
  EXPECT_TRUE(std::isnan(cross_entropy(row, target).item<float>()));
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

TEST(CrossEntropy, OfProbabilitiesIgnoresNoClassNotEvenTheFirst) {
  const Tensor x = random_leaf({3, 4}), target = softmax(random_tensor({3, 4}), 1);
  for (const std::int64_t ignored : {0, 3})
    EXPECT_THROWS_SAYING(cross_entropy(x, target, {.ignore_index = ignored}), ValueError, "is a class");
  EXPECT_NO_THROW(cross_entropy(x, target, {.ignore_index = -1}));
}

TEST(CrossEntropy, OfWeightsOfZeroHasNoMeanHoweverItIsDifferentiated) {
  const Tensor x = random_leaf({2, 2});
  const Tensor y = cross_entropy(x, classes({0, 0}), {.weight = make_tensor({0, 1}, {2})});
  EXPECT_TRUE(std::isnan(y.item<double>()));
  for (const bool create_graph : {false, true})
    for (const double g : grad({y}, {x}, {.retain_graph = true, .create_graph = create_graph})[0].to_vector<double>())
      EXPECT_TRUE(std::isnan(g)) << create_graph;
}

TEST(CrossEntropy, LeavesTheGradientInPlaceOfLogitsThatNobodyHolds) {
  const Tensor target = randint(0, 40, {300});
  const auto run = [&](const Tensor& w, bool holds) {
    Tensor logits = w * 2;
    const Tensor loss = cross_entropy(logits, target, {.label_smoothing = 0.1});
    if (!holds) logits = Tensor();
    memory::reset_peaks(Device::cpu());
    const std::size_t before = test::allocated();
    const std::vector<double> gradient = grad({loss}, {w})[0].to_vector<double>();
    return std::pair(gradient, test::statistics().allocated.peak - before);
  };
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const Tensor w = random_leaf({300, 40}, dtype);
    const auto [held, beside] = run(w, true);
    const auto [free, in_place] = run(w, false);
    EXPECT_EQ(held, free) << dtype;
    EXPECT_EQ(beside, in_place + test::rounded(300 * 40 * size_of(dtype))) << dtype;
  }
}

TEST(CrossEntropy, Of16BitsTakesNoCopyOfTheLogits) {
  const Tensor target = randint(0, 40, {300});
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const bool takes_logits : {true, false}) {
      SCOPED_TRACE(detail::concat(dtype, takes_logits ? " cross_entropy" : " nll_loss"));
      const Tensor x = random_leaf({300, 40}, dtype);
      memory::reset_peaks(Device::cpu());
      const std::size_t before = test::allocated(), logits = test::rounded(300 * 40 * 2),
                        rows = test::rounded(300 * sizeof(float));
      const Tensor loss = takes_logits ? cross_entropy(x, target) : nll_loss(x, target);
      EXPECT_LE(test::statistics().allocated.peak - before, 3 * rows);
      const Tensor g = grad({loss}, {x}, {.retain_graph = true})[0];
      EXPECT_EQ(g.dtype(), dtype);
      EXPECT_LE(test::statistics().allocated.peak - before, logits + 3 * rows);
      const Tensor composed = grad({loss}, {x}, {.create_graph = true})[0];
      EXPECT_EQ(composed.dtype(), dtype);
      EXPECT_TRUE(all_close(composed.to_vector<double>(), g.to_vector<double>(), 1e-2, 1e-6));
    }
}

// In f16, 1 / 65,536 alone would lose digits, and the loss scale of 65,536 would be infinite.
TEST(CrossEntropy, RoundsTheGradientOnce) {
  const Tensor target = zeros({65'536}, DType::i64),
               x = to(expand(make_tensor({1, 0.5}, {1, 2}), {65'536, 2}), DType::f16).set_requires_grad();
  const Autocast autocast(DType::f16);
  const Tensor loss = cross_entropy(x, target);
  const std::vector<float> g = grad({loss * 65'536}, {x})[0].to_vector<float>();
  const double p = 1 / (1 + std::exp(-0.5));
  for (const std::size_t row : {0, 65'535}) {
    EXPECT_NEAR(g[2 * row], p - 1, 2e-4);
    EXPECT_NEAR(g[2 * row + 1], 1 - p, 2e-4);
  }
}

TEST(CrossEntropy, ReadsChannelsLastImagesAsTheyLie) {
  const Tensor x = channels_last(random_tensor({2, 5, 6, 7})).set_requires_grad();
  const Tensor target = randint(0, 5, {2, 6, 7});
  memory::reset_peaks(Device::cpu());
  const std::size_t before = test::allocated();
  const Tensor loss = cross_entropy(x, target);
  const std::size_t added = test::statistics().allocated.peak - before, rows = 2 * 6 * 7 * sizeof(double);
  EXPECT_LE(added, 2 * test::rounded(rows) + 2 * test::rounded(sizeof(double))) << "no copy of the logits";
  loss.backward();
  EXPECT_EQ(x.grad().strides(), x.strides());
}

TEST(NllLoss, IsCrossEntropyBehindLogSoftmax) {
  const Tensor x = random_leaf({7, 4}), w = abs(random_tensor({4})), target = classes({0, 3, -100, 1, 2, 2, 0});
  const Tensor one = nll_loss(log_softmax(x, 1), target, {.weight = w}), two = cross_entropy(x, target, {.weight = w});
  EXPECT_TRUE(all_close(one, two));
  EXPECT_TRUE(all_close(grad({one}, {x})[0], grad({two}, {x})[0]));
  EXPECT_THROWS_SAYING(nll_loss(x, classes({0, 3, 4, 1, 2, 2, 0})), ValueError, "nll_loss: target 4 is not in [0, 4)");
}

TEST(NllLoss, OfHalfFloatsIgnoresTheSameTargets) {
  const Tensor target = classes({0, 7, 3, 1, 7, 2});
  for (const DType half : {DType::bf16, DType::f16}) {
    const Tensor x = to(log_softmax(random_tensor({6, 4}, DType::f32), 1), half);
    for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
      const NllLossOptions options{.reduction = reduction, .ignore_index = 7};
      const Tensor wide = nll_loss(to(x, DType::f32), target, options);
      EXPECT_EQ(nll_loss(x, target, options).item<float>(), to(wide, half).item<float>());
    }
  }
}

TEST(BinaryCrossEntropy, SurvivesLargeLogits) {
  const Tensor x = make_tensor({1e4, -1e4, 1e4, -1e4}, 4, DType::f32).set_requires_grad();
  const Tensor t = make_tensor({1, 0, 0, 1}, 4, DType::f32);
  const Tensor y = binary_cross_entropy_with_logits(x, t, {.reduction = Reduction::none});
  EXPECT_TRUE(all_close(y.to_vector<double>(), {0, 0, 1e4, 1e4}, 0, 1e-37));
  sum(y).backward();
  EXPECT_TRUE(all_close(x.grad().to_vector<double>(), {0, 0, 1, -1}, 0, 1e-37));
}

TEST(Losses, AreCalledAsInPyTorch) {
  const Tensor logits = random_leaf({2, 3, 4, 4}), classes = randint(0, 3, {2, 4, 4}),
               soft = softmax(logits, 1).detach();
  const Tensor x = random_leaf({5, 2}), target = random_tensor({5, 2}), labels = to(target > 0, DType::f64);
  const Tensor weight = from_vector<double>({1, 0.5, 2}), pos_weight = from_vector<double>({3, 1});
  const Tensor losses[] = {
      cross_entropy(logits, classes, {.weight = weight, .ignore_index = 2, .label_smoothing = 0.1}),
      cross_entropy(logits, soft),
      nll_loss(log_softmax(logits, 1), classes, {.weight = weight, .reduction = Reduction::sum}),
      mse_loss(x, target),
      l1_loss(x, target, Reduction::sum),
      huber_loss(x, target, Reduction::mean, /*delta=*/0.5),
      binary_cross_entropy_with_logits(x, labels, {.pos_weight = pos_weight}),
  };
  for (const Tensor& loss : losses) {
    loss.backward();
    EXPECT_GT(loss.item<double>(), 0);
  }
}

TEST(CrossEntropy, AddsUpWeightsForSmoothingAlone) {
  const Tensor x = random_leaf({3, 4}), target = classes({1, 0, 2}), weight = ones({4}, DType::f64);
  const auto saved = [&](const Tensor& w, double smoothing) {
    const Tensor y = cross_entropy(x, target, {.weight = w, .label_smoothing = smoothing});
    return test::held_as(memory::Role::saved);
  };
  EXPECT_EQ(saved(weight, 0.1) - saved(weight, 0), test::rounded(sizeof(double)));
  EXPECT_EQ(saved({}, 0.1), saved({}, 0));
}

TEST(CrossEntropy, NamesTheBadTarget) {
  const Tensor x = random_tensor({3, 4});
  EXPECT_THROWS_SAYING(cross_entropy(x, classes({1, 4, 0})), ValueError, "cross_entropy: target 4 is not in [0, 4)");
  EXPECT_THROWS_SAYING(cross_entropy(x, classes({1, -1, 0})), ValueError, "target -1 is not in [0, 4)");
}

TEST(CrossEntropy, TakesClassesOrProbabilitiesAlone) {
  const Tensor logits = random_tensor({2, 3});
  EXPECT_THROWS_SAYING(cross_entropy(logits, zeros({2, 3}, DType::i32)), DTypeError, "class indices (i64)");
  EXPECT_THROWS_SAYING(cross_entropy(logits, zeros({2}, DType::f64)), DTypeError, "class indices (i64)");
  for (const double outside : {-0.1, 1.1})
    EXPECT_THROWS_SAYING(cross_entropy(logits, zeros({2}, DType::i64), {.label_smoothing = outside}), ValueError,
                         "label_smoothing must be in [0, 1]");
  EXPECT_THROWS_SAYING(cross_entropy(ones({}), zeros({}, DType::i64)), ShapeError, "expected logits (n, c)");
  EXPECT_THROWS_SAYING(cross_entropy(ones({}), ones({})), ShapeError, "expected logits (c)");
}

TEST(KlDiv, IsZeroForTargetsOfZero) {
  const Tensor x = make_tensor({-INFINITY, -1, -2, -0.5}, {2, 2}), target = make_tensor({0, 1, 0.5, 0.5}, {2, 2});
  const double third = 0.5 * (std::log(0.5) + 2), fourth = 0.5 * (std::log(0.5) + 0.5);
  EXPECT_TRUE(all_close(kl_div(x, target, KlDivReduction::none), make_tensor({0, 1, third, fourth}, {2, 2})));
  EXPECT_NEAR(kl_div(x, target).item<double>(), (1 + third + fourth) / 4, 1e-15);
  EXPECT_NEAR(kl_div(x, target, KlDivReduction::batchmean).item<double>(), (1 + third + fourth) / 2, 1e-15);
  const Tensor leaf = x.detach().set_requires_grad();
  kl_div(leaf, target, KlDivReduction::sum).backward();
  EXPECT_TRUE(all_close(leaf.grad(), -target));
}

}  // namespace
}  // namespace bytetape
