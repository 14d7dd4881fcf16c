#include "bytetape/optim/sgd.h"
#include "bytetape/core/memory/stats.h"

#include <gmock/gmock.h>

#include "bytetape/autograd/ops.h"
#include "bytetape/core/device/backend.h"
#include "tests/optim/golden.h"
#include "tests/support/expect.h"

namespace bytetape::optim {
namespace {

using golden::run_both;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(SGD, EqualsPyTorch) {
  run_both<SGD>("sgd", SGDOptions{.lr = 0.01});
  run_both<SGD>("sgd_momentum", SGDOptions{.lr = 0.01, .momentum = 0.9});
  run_both<SGD>("sgd_nesterov_decay", SGDOptions{.lr = 0.01, .momentum = 0.9, .weight_decay = 0.05, .nesterov = true});
  run_both<SGD>("sgd_dampening", SGDOptions{.lr = 0.02, .momentum = 0.8, .dampening = 0.3});
}

TEST(SGD, WithGroupsEqualsPyTorch) {
  const auto make = [](const std::vector<Tensor>& x) -> golden::Training {
    return {.optimizer =
                std::make_unique<SGD>(std::vector<ParamGroup>{{.params = {x[0]}, .lr = 0.02, .weight_decay = 0.1},
                                                              {.params = {x[1]}, .momentum = 0, .dampening = 0}},
                                      SGDOptions{.lr = 0.01, .momentum = 0.9, .dampening = 0.2})};
  };
  run_both("sgd_groups", make, {3, 4});
}

TEST(SGD, NamesTheArgumentThatIsOutOfRange) {
  const auto make = [](const SGDOptions& options) { return [=] { SGD({randn({3})}, options); }; };
  EXPECT_THAT(make({.lr = -0.1}), ThrowsMessage<ValueError>(HasSubstr("sgd: lr must not be negative, got -0.1")));
  EXPECT_THAT(make({.momentum = -1}), ThrowsMessage<ValueError>(HasSubstr("momentum must not be negative")));
  EXPECT_THAT(make({.weight_decay = std::nan("")}), ThrowsMessage<ValueError>(HasSubstr("weight_decay")));
  EXPECT_THAT(make({.dampening = std::nan("")}), ThrowsMessage<ValueError>(HasSubstr("a finite dampening")));
  EXPECT_THAT(make({.nesterov = true}), ThrowsMessage<ValueError>(HasSubstr("nesterov needs momentum > 0")));
  EXPECT_THAT(make({.momentum = 0.9, .dampening = 0.1, .nesterov = true}),
              ThrowsMessage<ValueError>(HasSubstr("dampening 0")));
}

TEST(SGD, FollowsAChangedRate) {
  Tensor p = from_vector(std::vector<double>{1, 2});
  SGD sgd({p}, {.lr = 0.5});
  p.set_grad(from_vector(std::vector<double>{1, -1}));
  sgd.step();
  sgd.set_lr(0.25);
  EXPECT_EQ(sgd.lr(), 0.25);
  sgd.step();
  EXPECT_THAT(p.to_vector<double>(), testing::ElementsAre(0.25, 2.75));
  EXPECT_THROW(sgd.set_lr(-1), ValueError);
}

// Its buffer is then one of many steps without a gradient.
TEST(SGD, TakesUpMomentumLater) {
  Tensor p = from_vector(std::vector<double>{1}).set_requires_grad();
  SGD sgd({p}, {.lr = 1, .dampening = 0.5});
  p.set_grad(from_vector(std::vector<double>{1}));
  sgd.step();
  EXPECT_EQ(p.detach().to_vector<double>()[0], 0);
  sgd.param_groups()[0].momentum = 0.5;
  sgd.step();
  EXPECT_EQ(p.detach().to_vector<double>()[0], -0.5);
  sgd.step();
  EXPECT_EQ(p.detach().to_vector<double>()[0], -0.5 - 0.75);
}

TEST(SGD, WithoutMomentumKeepsNoState) {
  Tensor p = randn({300});
  p.set_grad(randn({300}));
  SGD sgd({p}, {.lr = 0.5});
  const auto before = memory::stats(Device::cpu()).allocations;
  sgd.step();
  EXPECT_EQ(memory::stats(Device::cpu()).allocations, before);
}

// Its buffer is made of memory that somebody has used.
TEST(SGD, MayBeGivenMomentumOnTheWay) {
  const Tensor p = randn({300}, DType::f64).set_requires_grad(), factor = randn({300}, DType::f64);
  Tensor expected = clone(p.detach()), buffer;
  SGD sgd({p}, {.lr = 0.1});
  for (int i = 0; i < 5; ++i) {
    if (i == 2) sgd.param_groups()[0].momentum = 0.9;
    sgd.zero_grad();
    sum(p * p * factor).backward();
    const Tensor g = clone(p.grad());
    buffer = i < 2 ? Tensor() : i == 2 ? g : buffer * 0.9 + g;
    expected = expected - 0.1 * (buffer.defined() ? buffer : g);
    { const Tensor used = full({300}, 7, DType::f64); }
    sgd.step();
    EXPECT_TRUE(test::all_close(p.detach(), expected)) << i;
  }
}

}  // namespace
}  // namespace bytetape::optim
