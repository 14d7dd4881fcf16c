#include "bytetape/optim/adam.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/optim/golden.h"

namespace bytetape::optim {
namespace {

using golden::run_both;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Adam, EqualsPyTorch) {
  run_both<Adam>("adam", AdamOptions{.lr = 0.02});
  run_both<Adam>("adam_decay", AdamOptions{.lr = 0.02, .betas = {0.8, 0.99}, .eps = 1e-6, .weight_decay = 0.05});
}

TEST(AdamW, EqualsPyTorch) {
  run_both<AdamW>("adamw", AdamWOptions{.lr = 0.02});
  run_both<AdamW>("adamw_decay", AdamWOptions{.lr = 0.02, .weight_decay = 0.1});
}

TEST(AdamW, WithGroupsEqualsPyTorch) {
  const auto make = [](const std::vector<Tensor>& x) -> golden::Training {
    return {.optimizer = std::make_unique<AdamW>(
                std::vector<ParamGroup>{{.params = {x[0]}, .weight_decay = 0},
                                        {.params = {x[1]}, .lr = 0.005, .betas = {{0.7, 0.9}}, .eps = 1e-4}},
                AdamWOptions{.lr = 0.02, .weight_decay = 0.1})};
  };
  run_both("adamw_groups", make, {3, 4});
}

TEST(Adam, NamesTheArgumentThatIsOutOfRange) {
  const auto make = [](const AdamOptions& options) { return [=] { Adam({randn({3})}, options); }; };
  EXPECT_THAT(make({.lr = -0.1}), ThrowsMessage<ValueError>(HasSubstr("adam: lr must not be negative, got -0.1")));
  EXPECT_THAT(make({.betas = {1, 0.9}}), ThrowsMessage<ValueError>(HasSubstr("betas[0]")));
  EXPECT_THAT(make({.betas = {0.9, -0.1}}), ThrowsMessage<ValueError>(HasSubstr("betas[1]")));
  EXPECT_THAT(make({.eps = -1}), ThrowsMessage<ValueError>(HasSubstr("eps")));
  EXPECT_THAT([] { AdamW({randn({3})}, {.weight_decay = -1}); },
              ThrowsMessage<ValueError>(HasSubstr("adamw: weight_decay")));
}

TEST(Adam, TakesBothEndsOfItsRanges) {
  Tensor p = from_vector(std::vector<double>{1}).set_requires_grad();
  Adam adam({p}, {.lr = 0.5, .betas = {0, 0}, .eps = 0});
  p.set_grad(from_vector(std::vector<double>{-3}));
  adam.step();
  EXPECT_EQ(p.detach().item<double>(), 1.5) << "the sign of the gradient alone";
  for (const int i : {0, 1})
    for (const double outside : {-0.1, 1.0}) {
      std::array<double, 2> betas{0.9, 0.9};
      betas[i] = outside;
      EXPECT_THAT([&] { Adam({p}, {.betas = betas}); },
                  ThrowsMessage<ValueError>(HasSubstr("betas[" + std::to_string(i) + "]")));
    }
}

// A parameter that joins late must not get the bias correction of those that started before.
TEST(Adam, CountsTheStepsOfEachParameter) {
  Tensor early = randn({5}, DType::f64), late = randn({5}, DType::f64);
  const Tensor g = randn({5}, DType::f64);
  const auto before = late.to_vector<double>();
  Adam adam({early, late}, {.lr = 0.5});
  early.set_grad(g);
  for (int i = 0; i < 4; ++i) adam.step();
  EXPECT_EQ(late.to_vector<double>(), before);
  late.set_grad(g);
  adam.step();
  for (int i = 0; i < 5; ++i)  // the first step is one of length lr
    EXPECT_NEAR(std::abs(late.to_vector<double>()[i] - before[i]), 0.5, 1e-6);
}

}  // namespace
}  // namespace bytetape::optim
