#include <gtest/gtest.h>

#include <optional>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"
#include "tests/support/random.h"

namespace bytetape::test {
namespace {

struct Net {
  Tensor x = random_tensor({3, 4, 9, 7}, DType::f64), first = random_tensor({8, 4, 3, 3}, DType::f64),
         second = random_tensor({5, 8, 3, 3}, DType::f64), weight = random_tensor({8}, DType::f64),
         bias = random_tensor({8}, DType::f64);

  Net() {
    for (Tensor* t : {&x, &first, &second, &weight, &bias}) t->set_requires_grad();
  }
  std::vector<Tensor> inputs() const { return {x, first, second, weight, bias}; }
  Tensor normalised() const {
    return batch_norm(conv2d(x, first), weight, bias, {}, {}, true, 0.1, 1e-5, Activation::relu);
  }
  Tensor operator()() const { return conv2d(normalised(), second); }
};

TEST(Recompute, GivesTheSameGradientsFromLessMemory) {
  const Net net;
  const auto run = [&](bool recomputes) {
    Tensor y;
    std::size_t saved = 0;
    {
      std::optional<Recompute> recompute;
      if (recomputes) recompute.emplace();
      y = net();
      saved = held_as(memory::Role::saved);
    }
    EXPECT_FALSE(recomputing());
    std::vector<Tensor> grads = grad({y}, net.inputs(), {.seeds = {ones_like(y) * 0.7}});
    return std::pair(grads, saved);
  };
  const auto [kept, kept_bytes] = run(false);
  const auto [made, made_bytes] = run(true);
  for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i].to_vector<double>(), made[i].to_vector<double>());
  EXPECT_EQ(kept_bytes - made_bytes, rounded(3 * 8 * 7 * 5 * sizeof(double)));
}

TEST(Recompute, LastsForGraphsThatStay) {
  const Net net;
  const auto gradients = [&](const GradOptions& options) {
    const Recompute recompute;
    const Tensor y = net();
    const Tensor first = grad({sum(y * y)}, {net.x}, options)[0];
    if (options.create_graph) return grad({sum(first * first)}, {net.second})[0];
    return grad({sum(y * y)}, {net.x}, options)[0] - first;
  };
  EXPECT_TRUE(all_close(gradients({.retain_graph = true}), zeros_like(net.x), 0, 0));
  const Tensor twice = gradients({.create_graph = true});
  const Tensor y = net(), first = grad({sum(y * y)}, {net.x}, {.create_graph = true})[0];
  EXPECT_TRUE(all_close(twice, grad({sum(first * first)}, {net.second})[0], 1e-12, 1e-12));
}

TEST(Recompute, KeepsWhatWasOverwrittenBefore) {
  const Net net;
  const auto gradient = [&](bool recomputes) {
    Tensor y = net.normalised();
    {
      const NoGrad no_grad;
      y *= 2;
    }
    std::optional<Recompute> recompute;
    if (recomputes) recompute.emplace();
    return grad({sum(conv2d(y, net.second))}, {net.second})[0];
  };
  EXPECT_EQ(gradient(true).to_vector<double>(), gradient(false).to_vector<double>());
}

TEST(Recompute, RemakesNoResultThatItsInputDoesNotTell) {
  const Net net;
  const Tensor added = random_leaf({3, 8, 7, 5});
  for (const Activation activation : {Activation::none, Activation::relu}) {
    const auto gradients = [&] {
      const Tensor x = conv2d(net.x, net.first);
      const Tensor y =
          conv2d(batch_norm(x, net.weight, net.bias, {}, {}, true, 0.1, 1e-5, activation, added), net.second);
      return grad({sum(y * y)}, {net.x, net.second, added});
    };
    const std::vector<Tensor> expected = gradients();
    const Recompute recompute;
    const std::vector<Tensor> found = gradients();
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(all_close(found[i], expected[i]));
  }
}

TEST(Recompute, LeadsSecondDerivativesToEveryInput) {
  const Net net;
  const auto second = [&] {
    const Tensor y = net(), first = grad({sum(y * y)}, {net.second}, {.create_graph = true})[0];
    return grad({sum(first * first)}, net.inputs());
  };
  const std::vector<Tensor> expected = second();
  const Recompute recompute;
  const std::vector<Tensor> found = second();
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(all_close(found[i], expected[i])) << i;
}

}  // namespace
}  // namespace bytetape::test
