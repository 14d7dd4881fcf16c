// Losses and their gradients against PyTorch's, of the inputs that tests/golden/losses.py tells.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/golden.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

Tensor values(double (*f)(int), const Shape& shape) {
  std::vector<double> v;
  for (int i = 0; i < numel(shape); ++i) v.push_back(f(i));
  return make_tensor(v, shape);
}
Tensor targets(const Shape& shape) {
  return values([](int i) { return std::cos(0.9 * i); }, shape);
}
Tensor weights(const Shape& shape) {
  return values([](int i) { return 0.5 + 0.25 * (i % 4); }, shape);
}
Tensor probabilities(const Shape& shape) {
  return values([](int i) { return 0.1 + 0.2 * (i % 5); }, shape);
}
Tensor classes(const Shape& shape) {
  return to(values([](int i) { return i % 5 == 3 ? -100.0 : (2 * i + 1) % 4; }, shape), DType::i64);
}

const Shape rows{6, 4}, images{2, 4, 3, 2}, pixels{2, 3, 2};

struct Configuration {
  const char* name;
  Shape shape;
  std::function<Tensor(const Tensor&)> loss;
};

const std::vector<Configuration>& configurations() {
  using T = const Tensor&;
  static const std::vector<Configuration> all{
      {"cross_entropy", rows, [](T x) { return cross_entropy(x, classes(6)); }},
      {"cross_entropy_weighted", rows, [](T x) { return cross_entropy(x, classes(6), {.weight = weights(4)}); }},
      {"cross_entropy_weighted_smoothed", rows,
       [](T x) { return cross_entropy(x, classes(6), {.weight = weights(4), .label_smoothing = 0.2}); }},
      {"cross_entropy_weighted_smoothed_none", rows,
       [](T x) {
         return cross_entropy(x, classes(6),
                              {.weight = weights(4), .reduction = Reduction::none, .label_smoothing = 0.2});
       }},
      {"cross_entropy_ignored", rows,
       [](T x) { return cross_entropy(x, clamp(classes(6), 0, 3), {.weight = weights(4), .ignore_index = 1}); }},
      {"cross_entropy_images", images,
       [](T x) { return cross_entropy(x, classes(pixels), {.weight = weights(4), .label_smoothing = 0.1}); }},
      {"cross_entropy_images_none", images,
       [](T x) { return cross_entropy(x, classes(pixels), {.reduction = Reduction::none}); }},
      {"cross_entropy_single", {4}, [](T x) { return cross_entropy(x, classes({}), {.weight = weights(4)}); }},
      {"cross_entropy_soft", rows, [](T x) { return cross_entropy(x, probabilities(rows)); }},
      {"cross_entropy_soft_weighted_smoothed", rows,
       [](T x) { return cross_entropy(x, probabilities(rows), {.weight = weights(4), .label_smoothing = 0.3}); }},
      {"cross_entropy_soft_images_none", images,
       [](T x) {
         return cross_entropy(x, probabilities(images), {.weight = weights(4), .reduction = Reduction::none});
       }},
      {"cross_entropy_soft_single",
       {4},
       [](T x) { return cross_entropy(x, probabilities(4), {.weight = weights(4)}); }},
      {"nll_loss", rows, [](T x) { return nll_loss(x, classes(6)); }},
      {"nll_loss_weighted", rows, [](T x) { return nll_loss(x, classes(6), {.weight = weights(4)}); }},
      {"nll_loss_images_sum", images,
       [](T x) { return nll_loss(x, classes(pixels), {.weight = weights(4), .reduction = Reduction::sum}); }},
      {"mse_loss", rows, [](T x) { return mse_loss(x, targets(rows)); }},
      {"l1_loss", rows, [](T x) { return l1_loss(x, targets(rows)); }},
      {"huber_loss", rows, [](T x) { return huber_loss(x, targets(rows)); }},
      {"huber_loss_delta_none", rows, [](T x) { return huber_loss(x, targets(rows), Reduction::none, 0.7); }},
      {"bce", rows, [](T x) { return binary_cross_entropy_with_logits(x, targets(rows)); }},
      {"bce_weighted", rows,
       [](T x) {
         return binary_cross_entropy_with_logits(x, targets(rows),
                                                 {.weight = weights({6, 1}), .pos_weight = weights(4)});
       }},
  };
  return all;
}

class GoldenLoss : public testing::TestWithParam<std::size_t> {};

TEST_P(GoldenLoss, IsPyTorchs) {
  const auto& [name, shape, loss] = configurations()[GetParam()];
  const Tensor x = values([](int i) { return 2 * std::sin(1.7 * i + 0.3); }, shape).set_requires_grad();
  const Tensor y = loss(x);
  const auto expected = golden_numbers("losses.csv", name, "loss");
  ASSERT_FALSE(expected.empty());
  EXPECT_TRUE(all_close(y.to_vector<double>(), expected, 1e-12, 1e-14));
  const Tensor g = grad({sum(y)}, {x})[0];
  EXPECT_TRUE(all_close(g.to_vector<double>(), golden_numbers("losses.csv", name, "grad"), 1e-12, 1e-14));
}

INSTANTIATE_TEST_SUITE_P(, GoldenLoss, testing::Range(std::size_t{0}, configurations().size()),
                         [](const auto& info) { return configurations()[info.param].name; });

}  // namespace
}  // namespace bytetape::test
