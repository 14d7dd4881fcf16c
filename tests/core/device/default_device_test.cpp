#include "bytetape/core/device/default_device.h"

#include <thread>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

TEST(DefaultDevice, HoldsForItsScopeOnItsThread) {
  EXPECT_EQ(default_device(), Device::cpu());
  {
    const DefaultDevice meta(Device::meta());
    EXPECT_EQ(default_device(), Device::meta());
    {
      const DefaultDevice cpu(Device::cpu());
      EXPECT_EQ(default_device(), Device::cpu());
    }
    EXPECT_EQ(default_device(), Device::meta());
    std::thread([] { EXPECT_EQ(default_device(), Device::cpu()); }).join();
  }
  EXPECT_EQ(default_device(), Device::cpu());
}

TEST(DefaultDevice, IsWhereFactoriesMakeTensors) {
  const DefaultDevice meta(Device::meta());
  const auto before = test::statistics().allocations;
  for (const Tensor& x :
       {empty(3), zeros(3), ones(3), full(3, 2), arange(3), arange(0, 3), rand(3), randn(3), randint(0, 2, 3),
        randperm(3), from_vector<float>({1, 2}), from_vector<float>({1, 2}, {1, 2})})
    EXPECT_EQ(x.device(), Device::meta());
  EXPECT_EQ(test::statistics().allocations, before);
  EXPECT_EQ(zeros(3, DType::f32, Device::cpu()).device(), Device::cpu());
}

// What is read on the host is made there.
TEST(DefaultDevice, IsNotWhereTheHostReads) {
  const Tensor x = from_vector<float>({1, 2});
  const DefaultDevice meta(Device::meta());
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{1, 2}));
  EXPECT_EQ(detail::concat(x), "[1., 2.]\nf32(2,) on cpu");
  EXPECT_EQ(sum(x * x).item<float>(), 5);
  EXPECT_EQ(data::generated_digits(3, 0).images.device(), Device::cpu());
}

TEST(DefaultDevice, IsWhereAModelOfOnesOwnIsMade) {
  struct Scale : nn::Module {
    nn::Parameter w = register_parameter("w", ones({4}));
    Tensor forward(const Tensor& x) override { return x * w; }
  };
  const DefaultDevice meta(Device::meta());
  Scale scale;
  const memory::Step step;
  sum(scale(randn({2, 4}))).backward();
  EXPECT_EQ(scale.w.grad().device(), Device::meta());
}

TEST(DefaultDevice, IsWhereStepsAreMarked) {
  const DefaultDevice meta(Device::meta());
  memory::reset_log(Device::meta());
  EXPECT_EQ(memory::Step().number(), 1u);
  EXPECT_EQ(memory::Step(Device::meta()).number(), 2u);
}

}  // namespace
}  // namespace bytetape
