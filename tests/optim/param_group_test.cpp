#include "bytetape/optim/param_group.h"

#include <gmock/gmock.h>

#include "bytetape/core/device/backend.h"
#include "bytetape/core/factories.h"
#include "bytetape/optim/adam.h"
#include "bytetape/optim/lr_scheduler.h"
#include "bytetape/optim/sgd.h"

namespace bytetape::optim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

Tensor leaf() { return from_vector(std::vector<double>{1, 2}).set_requires_grad(); }
std::vector<double> values(const Tensor& p) { return p.detach().to_vector<double>(); }

TEST(ParamGroup, LeavesOutWhatTheOptimizerWasMadeWith) {
  const Tensor a = leaf(), b = leaf(), c = leaf();
  SGD sgd({{.params = {a, b}}, {.params = {c}, .lr = 0.5, .nesterov = true}}, {.lr = 0.1, .momentum = 0.9});
  ASSERT_EQ(sgd.param_groups().size(), 2u);
  const ParamGroup &first = sgd.param_groups()[0], &second = sgd.param_groups()[1];
  EXPECT_EQ(first.lr, 0.1);
  EXPECT_EQ(first.nesterov, false);
  EXPECT_EQ(second.lr, 0.5);
  EXPECT_EQ(second.momentum, 0.9);
  EXPECT_EQ(second.nesterov, true);
  EXPECT_FALSE(second.betas || second.eps || second.initial_lr);
  EXPECT_EQ(sgd.parameters().size(), 3u);
  EXPECT_TRUE(sgd.parameters()[2].is_same(c));
  EXPECT_EQ(sgd.lr(), 0.1);
}

TEST(ParamGroup, MayBeChangedBetweenSteps) {
  Tensor a = leaf(), b = leaf();
  SGD sgd({{.params = {a}}, {.params = {b}, .lr = 1}}, {.lr = 0.5});
  const auto step = [&] {
    for (Tensor* p : {&a, &b}) p->set_grad(from_vector(std::vector<double>{1, -1}));
    sgd.step();
  };
  step();
  EXPECT_THAT(values(a), ElementsAre(0.5, 2.5));
  EXPECT_THAT(values(b), ElementsAre(0, 3));
  for (ParamGroup& g : sgd.param_groups()) g.lr = *g.lr / 2;
  sgd.param_groups()[1].weight_decay = 1;
  step();
  EXPECT_THAT(values(a), ElementsAre(0.25, 2.75));
  EXPECT_THAT(values(b), ElementsAre(-0.5, 2));
  sgd.set_lr(0.25);
  EXPECT_EQ(sgd.param_groups()[1].lr, 0.25);
  sgd.param_groups()[1].weight_decay.reset();  // goes by the optimizer's again
  sgd.param_groups()[0].lr.reset();
  EXPECT_EQ(sgd.lr(), 0.5);
  EXPECT_EQ(sgd.param_groups()[0].lr, 0.5);
  sgd.param_groups()[0].lr.reset();
  EXPECT_EQ(sgd.state_dict().number("param_groups.0.lr"), 0.5);
  sgd.param_groups()[0].lr.reset();
  lr_scheduler::StepLR schedule(sgd, {.step_size = 1});
  EXPECT_THAT(schedule.get_last_lr(), ElementsAre(0.5, 0.25));
  sgd.set_lr(0.25);
  step();
  EXPECT_THAT(values(a), ElementsAre(0, 3));
  EXPECT_THAT(values(b), ElementsAre(-0.75, 2.25));
}

TEST(ParamGroup, ThatIsOutOfRangeMovesNothing) {
  Tensor a = leaf(), b = leaf();
  Adam adam({{.params = {a}}, {.params = {b}}});
  a.set_grad(ones({2}, DType::f64));
  adam.param_groups()[1].betas = {{0.9, 1.5}};
  EXPECT_THAT([&] { adam.step(); },
              ThrowsMessage<ValueError>(HasSubstr("adam: betas[1] must be at least 0 and below 1")));
  adam.param_groups()[1].betas.reset();
  adam.param_groups()[0].lr = -1;
  EXPECT_THAT([&] { adam.step(); }, ThrowsMessage<ValueError>(HasSubstr("adam: lr must not be negative, got -1")));
  EXPECT_THAT(values(a), ElementsAre(1, 2));
}

TEST(ParamGroup, ThatIsOutOfRangeIsNotLoaded) {
  Tensor a = leaf();
  Adam adam({a}, {.lr = 0.5});
  a.set_grad(ones({2}, DType::f64));
  adam.step();
  StateDict state = adam.state_dict();
  state.numbers["param_groups.0.lr"] = -1.0;
  EXPECT_THAT([&] { adam.load_state_dict(state); },
              ThrowsMessage<ValueError>(HasSubstr("adam: lr must not be negative, got -1")));
  EXPECT_EQ(*adam.param_groups()[0].lr, 0.5);
  adam.step();
}

TEST(ParamGroup, IsRefusedWhereTheOptimizerLacksItsOption) {
  const Tensor a = leaf(), b = leaf();
  EXPECT_THAT(
      [&] {
        SGD({{.params = {a}}, {.params = {b}, .eps = 1e-3}});
      },
      ThrowsMessage<ValueError>(HasSubstr("sgd: a parameter group has eps, which is not an option")));
  EXPECT_THAT([&] { Adam({{.params = {a}, .momentum = 0.9}}); }, ThrowsMessage<ValueError>(HasSubstr("has momentum")));
  EXPECT_THAT([&] { SGD({{.params = {a}}, {.params = {a}}}); }, ThrowsMessage<ValueError>(HasSubstr("appears twice")));
  EXPECT_THAT([&] { SGD({{.params = {a}, .lr = -0.5}}); }, ThrowsMessage<ValueError>(HasSubstr("got -0.5")));
  EXPECT_THAT([&] { SGD(std::vector<ParamGroup>{}); }, ThrowsMessage<ValueError>(HasSubstr("at least one parameter")));
}

}  // namespace
}  // namespace bytetape::optim
