#include "bytetape/autograd/grad_mode.h"

#include <thread>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::random_leaf;

TEST(GradMode, OffRecordsNothing) {
  const Tensor x = random_leaf({3});
  {
    const NoGrad no_grad;
    EXPECT_FALSE((x * 2).requires_grad());
    {
      const GradMode on(true);
      EXPECT_TRUE((x * 2).requires_grad());
    }
    EXPECT_FALSE(grad_enabled());
  }
  EXPECT_TRUE(grad_enabled());
}

TEST(GradMode, IsOfTheThread) {
  const NoGrad no_grad;
  bool there = false;
  std::thread([&] { there = grad_enabled(); }).join();
  EXPECT_TRUE(there);
  EXPECT_FALSE(grad_enabled());
}

TEST(GradMode, IsOffWithinBackwardAndBackAfterwards) {
  const Tensor x = random_leaf({3});
  bool inside = true;
  x.register_hook([&](const Tensor&) { return inside = grad_enabled(), Tensor(); });
  sum(x * x).backward();
  EXPECT_FALSE(inside);
  EXPECT_TRUE(grad_enabled());
  EXPECT_FALSE(x.grad().requires_grad());
}

}  // namespace
}  // namespace bytetape
