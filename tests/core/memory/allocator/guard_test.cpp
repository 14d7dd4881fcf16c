#include "bytetape/core/memory/guard.h"
#include "bytetape/core/memory/allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "bytetape/bytetape.h"
#include "tests/support/expect.h"

namespace bytetape {
namespace {

using memory::Guard;
using memory::LeakError;

Tensor last;  // what a scope leaves behind
Tensor keep(const Tensor& x) { return last = x; }

class Guarded : public ::testing::Test {
 protected:
  void TearDown() override { last = {}; }
};

TEST_F(Guarded, AScopeThatKeepsNothingIsQuiet) {
  const Tensor before = randn({100});
  EXPECT_NO_THROW({
    const Guard guard;
    const Tensor x = before + before;
    const Tensor y = x * x;
  });
}

TEST_F(Guarded, WhatIsLeftIsThrownByModuleOpAndRole) {
  const auto leave = [] {
    const Guard guard;
    const memory::ModuleScope module(memory::intern("net.fc1"));
    keep(exp(randn({1000})));
  };
  EXPECT_THROWS_SAYING(leave(), LeakError,
                       "4.00 KiB more are held at the end of a memory::Guard than at its start\n"
                       "memory on cpu: +4.00 KiB, ");
  last = {};
  EXPECT_THROWS_SAYING(leave(), LeakError, "+1  output/temporary  net.fc1  exp\n");
}

TEST_F(Guarded, AReportTakesTheDifferenceInPlaceOfTheError) {
  std::optional<memory::Difference> found;
  {
    const Guard guard(Device::cpu(), [&](const memory::Difference& left) { found = left; });
    keep(randn({1000}));
  }
  ASSERT_TRUE(found);
  EXPECT_EQ(found->bytes(), 4096);
  ASSERT_EQ(found->rows.size(), 1u);
  EXPECT_EQ(memory::name_of(found->rows[0].op), "randn");
  found.reset();
  {
    const Guard guard(Device::cpu(), [&](const memory::Difference& left) { found = left; });
    last = {};
  }
  EXPECT_FALSE(found) << "less is no leak";
}

TEST_F(Guarded, AnExceptionThatLeavesTheScopeGoesFirst) {
  const auto fail = [] {
    const Guard guard;
    keep(randn({1000}));
    throw ValueError("first");
  };
  EXPECT_THROWS_SAYING(fail(), ValueError, "first");
}

// In a destructor that an exception runs, a scope of its own is checked as ever.
TEST_F(Guarded, AScopeThatBeginsWhileAnExceptionLeavesIsChecked) {
  int reports = 0;
  struct Ending {
    int& reports;
    ~Ending() {
      const Guard guard(Device::cpu(), [this](const memory::Difference&) { ++reports; });
      keep(randn({1000}));
    }
  };
  const auto fail = [&] {
    const Ending ending{reports};
    throw ValueError("first");
  };
  EXPECT_THROW(fail(), ValueError);
  EXPECT_EQ(reports, 1);
}

TEST_F(Guarded, IsOfOneDevice) {
  EXPECT_NO_THROW({
    const Guard guard;
    keep(empty({1000}, DType::f32, Device::meta()));
  });
  const auto leave = [] {
    const Guard guard(Device::meta());
    keep(empty({1000}, DType::f32, Device::meta()));
  };
  last = {};
  EXPECT_THROWS_SAYING(leave(), LeakError, "memory on meta: +4.00 KiB");
}

TEST_F(Guarded, AnyMemoryCanBeGuarded) {
  memory::Allocator pinned(Device::meta(), std::make_unique<memory::SimulatedUpstream>(),
                           memory::Allocator::Mode::caching, "pinned:cuda");
  memory::Block* block = nullptr;
  const auto leave = [&] {
    const Guard guard(pinned);
    block = pinned.allocate(5000, memory::Role::input);
  };
  EXPECT_THROWS_SAYING(leave(), LeakError, "memory on pinned:cuda: +5.00 KiB");
  pinned.deallocate(block);
}

TEST_F(Guarded, ATrainingStepLeavesNothingAfterTheFirst) {
  nn::Linear model(8, 4);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  const auto step = [&] {
    optimizer.zero_grad();
    sum(model(randn({3, 8}))).backward();
    optimizer.step();
  };
  const auto guarded = [&] {
    const Guard guard;
    step();
  };
  EXPECT_THROWS_SAYING(guarded(), LeakError, "optimizer state");
  EXPECT_NO_THROW(guarded());
}

}  // namespace
}  // namespace bytetape
