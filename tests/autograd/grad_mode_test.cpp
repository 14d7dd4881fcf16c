#include "bytetape/autograd/grad_mode.h"

#include <thread>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/factories.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace bytetape {
namespace {

using test::all_close;
using test::random_leaf;
using test::random_tensor;

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

TEST(RequiresGrad, StartsOnLeavesAndSpreads) {
  Tensor x = random_tensor({3});
  EXPECT_FALSE(x.requires_grad());
  EXPECT_FALSE((x * 2).requires_grad());
  x.set_requires_grad();
  const Tensor y = x * 2;
  EXPECT_TRUE(x.is_leaf());
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(y.is_leaf());
  x.set_requires_grad(false);
  EXPECT_FALSE((x * 2).requires_grad());
  EXPECT_TRUE((x * 2).is_leaf());
}

TEST(RequiresGrad, IsForFloatingLeaves) {
  Tensor y = random_leaf({3}) * 2, indices = arange(3);
  EXPECT_THROWS_SAYING(y.set_requires_grad(false), AutogradError, "can only be set on a leaf");
  EXPECT_THROWS_SAYING(indices.set_requires_grad(), DTypeError, "only floating tensors can require grad, got i64(3,)");
  indices.set_requires_grad(false);
  EXPECT_FALSE(indices.requires_grad());
}

TEST(RequiresGrad, StopsAtDetach) {
  const Tensor x = random_leaf({3}), y = x * x;
  const Tensor cut = y.detach();
  EXPECT_FALSE(cut.requires_grad());
  EXPECT_EQ(&cut.storage(), &y.storage());
  sum(cut * x).backward();
  EXPECT_TRUE(all_close(x.grad(), cut));
}

TEST(SetGrad, ChecksWhatItIsGiven) {
  Tensor x = random_leaf({3});
  EXPECT_THROWS_SAYING(x.set_grad(random_tensor({2})), ShapeError, "must have the shape of its tensor");
  EXPECT_THROWS_SAYING(x.set_grad(random_tensor({3}, DType::f32)), DTypeError, "must have the dtype of its tensor");
  EXPECT_THROWS_SAYING(x.set_grad(zeros({3}, DType::f64, Device::meta())), DeviceError, "must be where its tensor is");
  const Tensor g = random_tensor({3});
  x.set_grad(g);
  EXPECT_TRUE(x.grad().is_same(g));
  x.set_grad({});
  EXPECT_FALSE(x.grad().defined());
}

}  // namespace
}  // namespace bytetape
