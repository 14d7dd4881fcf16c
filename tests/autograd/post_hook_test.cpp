#include <gtest/gtest.h>

#include <vector>

#include "bytetape/autograd/checkpoint.h"
#include "bytetape/autograd/engine.h"
#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

TEST(PostAccumulateGradHooks, FindEachGradientWhole) {
  const Tensor w = randn({4, 4}, DType::f64).set_requires_grad(), v = randn({4, 4}, DType::f64).set_requires_grad();
  std::vector<Tensor> order;
  Tensor seen;
  w.register_post_accumulate_grad_hook([&](const Tensor& p) {
    order.push_back(p);
    seen = clone(p.grad());
  });
  v.register_post_accumulate_grad_hook([&](const Tensor& p) { order.push_back(p); });
  const auto loss = [&] { return sum(exp(matmul(w, v)) * w); };  // w is used twice
  const Tensor whole = grad({loss()}, {w})[0];
  EXPECT_TRUE(order.empty()) << "grad() accumulates nothing";
  loss().backward();
  ASSERT_EQ(order.size(), 2u);
  EXPECT_TRUE(test::all_close(seen, whole, 0, 0));
  const std::vector<Tensor> first = order;
  order.clear();
  loss().backward();
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(order[i].is_same(first[i]));
}

TEST(PostAccumulateGradHooks, AreRemovedByTheirNumber) {
  const Tensor w = randn(4).set_requires_grad();
  int calls = 0;
  const int handle = w.register_post_accumulate_grad_hook([&](const Tensor&) { ++calls; });
  sum(w).backward();
  w.remove_hook(handle);
  sum(w).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_THROWS_SAYING(randn(3).register_post_accumulate_grad_hook([](const Tensor&) {}), AutogradError,
                       "needs a leaf that requires grad");
  EXPECT_THROWS_SAYING((w * 2).register_post_accumulate_grad_hook([](const Tensor&) {}), AutogradError,
                       "needs a leaf that requires grad");
  EXPECT_THROWS_SAYING(w.register_post_accumulate_grad_hook(nullptr), ValueError, "must be callable");
}

TEST(PostAccumulateGradHooks, RegisteredInACheckpointAreRegisteredOnce) {
  Tensor w = randn(3).set_requires_grad();
  int calls = 0;
  const auto f = [&](const Tensor& t) {
    w.register_post_accumulate_grad_hook([&](const Tensor&) { ++calls; });
    return exp(t * w);
  };
  sum(checkpoint(f, randn(3))).backward();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace bytetape
