#include "bytetape/autograd/ops/loss.h"

#include <cmath>

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

TEST(CrossEntropy, LeavesTheGradientInPlaceOfLogitsThatNobodyHolds) {
  const Tensor w = random_leaf({300, 40}), target = randint(0, 40, {300});
  const auto run = [&](bool holds) {
    Tensor logits = w * 2;
    const Tensor loss = cross_entropy(logits, target, {.label_smoothing = 0.1});
    if (!holds) logits = Tensor();
    memory::allocator(Device::cpu()).reset_peaks();
    const std::size_t before = test::allocated();
    const std::vector<double> gradient = grad({loss}, {w})[0].to_vector<double>();
    return std::pair(gradient, test::statistics().allocated.peak - before);
  };
  const auto [held, beside] = run(true);
  const auto [free, in_place] = run(false);
  EXPECT_EQ(held, free);
  EXPECT_EQ(beside, in_place + test::rounded(300 * 40 * sizeof(double)));
}

TEST(CrossEntropy, NamesTheBadTarget) {
  const Tensor x = random_tensor({3, 4});
  EXPECT_THROWS_SAYING(cross_entropy(x, classes({1, 4, 0})), ValueError, "cross_entropy: target 4 is not in [0, 4)");
  EXPECT_THROWS_SAYING(cross_entropy(x, classes({1, -1, 0})), ValueError, "target -1 is not in [0, 4)");
}

}  // namespace
}  // namespace bytetape
