// The training of docs/optimizers.md, which quotes it.
#include <gtest/gtest.h>

#include "bytetape/bytetape.h"

namespace bytetape {
namespace {

using namespace optim::lr_scheduler;

/// A small problem and all that training it has to remember.
struct Training {
  nn::Linear backbone{8, 16}, head{16, 4};
  optim::SGD sgd{{{.params = backbone.parameters()}, {.params = head.parameters(), .lr = 0.1, .weight_decay = 0}},
                 {.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true}};
  SequentialLR schedule{sgd,
                        {std::make_shared<LinearLR>(sgd, LinearLROptions{.start_factor = 0.1, .total_iters = 3}),
                         std::make_shared<CosineAnnealingLR>(sgd, CosineAnnealingLROptions{.T_max = 7})},
                        {3}};
  optim::EMA ema{sgd.parameters(), {.decay = 0.9}};

  Tensor loss(const Tensor& x, const Tensor& y) { return cross_entropy(head(relu(backbone(x))), y); }

  double epoch(const Tensor& x, const Tensor& y) {
    double total = 0;
    constexpr int parts = 4;
    sgd.zero_grad();
    for (int k = 0; k < parts; ++k) {
      const Tensor part = loss(narrow(x, 0, 8 * k, 8), narrow(y, 0, 8 * k, 8)) / parts;
      part.backward();  // adds to the gradients that are there
      total += part.item<double>();
    }
    optim::clip_grad_value_(sgd.parameters(), 0.5);
    sgd.step();
    schedule.step();
    ema.update();
    return total;
  }

  StateDict state_dict() {
    StateDict all;
    all.add("optimizer", sgd.state_dict());
    all.add("schedule", schedule.state_dict());
    all.add("ema", ema.state_dict());
    return all;
  }

  void load_state_dict(const StateDict& state) {
    sgd.load_state_dict(state.part("optimizer"));
    schedule.load_state_dict(state.part("schedule"));
    ema.load_state_dict(state.part("ema"));
  }
};

TEST(Recipe, TrainsAndGoesOn) {
  manual_seed(1);
  const Tensor x = randn({32, 8}), y = randint(0, 4, {32});
  Training first, second;
  const double before = first.epoch(x, y);
  for (int i = 1; i < 5; ++i) first.epoch(x, y);
  second.backbone.load_state_dict(first.backbone.state_dict());
  second.head.load_state_dict(first.head.state_dict());
  second.load_state_dict(first.state_dict());
  double after = 0;
  for (int i = 5; i < 10; ++i) {
    after = first.epoch(x, y);
    EXPECT_EQ(second.epoch(x, y), after);
  }
  EXPECT_LT(after, before);
  first.ema.swap();
  EXPECT_LT(first.loss(x, y).item<double>(), before);
}

TEST(Recipe, TrainsMatricesWithMuon) {
  manual_seed(1);
  nn::Sequential net(nn::Linear(8, 16), nn::ReLU(), nn::Linear(16, 4));
  std::vector<Tensor> matrices, others;
  for (const Tensor& p : net.parameters()) (p.rank() == 2 ? matrices : others).push_back(p);
  optim::Muon muon(matrices, {.lr = 0.02});
  optim::AdamW adamw(others);
  const Tensor x = randn({32, 8}), y = randint(0, 4, {32});
  double first = 0, last = 0;
  for (int i = 0; i < 20; ++i) {
    muon.zero_grad();
    adamw.zero_grad();
    const Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    muon.step();
    adamw.step();
    last = loss.item<double>();
    if (i == 0) first = last;
  }
  EXPECT_LT(last, first);
}

TEST(Recipe, DecaysWeightsOnly) {
  nn::Sequential net(nn::Linear(4, 4), nn::Linear(4, 4));
  net[1].as<nn::Linear>().weight = net[0].as<nn::Linear>().weight;
  std::vector<Tensor> decayed, others;
  for (const auto& [name, p] : net.named_parameters()) (p.rank() > 1 ? decayed : others).push_back(p);
  optim::AdamW adamw{{{.params = decayed}, {.params = others, .weight_decay = 0}}, {.lr = 0.01, .weight_decay = 0.05}};
  EXPECT_EQ(adamw.param_groups()[0].params.size(), 1u);
  EXPECT_EQ(adamw.param_groups()[1].params.size(), 2u);
}

TEST(Recipe, LowersEveryGroupsRate) {
  Training training;
  optim::SGD& sgd = training.sgd;
  sgd.set_lr(0.1);
  for (optim::ParamGroup& group : sgd.param_groups()) group.lr = *group.lr / 10;
  for (const optim::ParamGroup& group : sgd.param_groups()) EXPECT_DOUBLE_EQ(*group.lr, 0.01);
}

TEST(Recipe, UnfreezesTheBackbone) {
  nn::Sequential backbone(nn::Linear(8, 4)), head(nn::Linear(4, 4));
  for (Tensor p : backbone.parameters()) p.set_requires_grad(false);
  optim::Adam adam(head.parameters(), {.lr = 1e-3});
  for (Tensor p : backbone.parameters()) p.set_requires_grad();
  adam.add_param_group({.params = backbone.parameters(), .lr = 1e-5});
  const auto before = backbone.parameters()[0].to_vector<float>();
  sum(head(backbone(randn({2, 8})))).backward();
  adam.step();
  EXPECT_NE(backbone.parameters()[0].to_vector<float>(), before);
}

TEST(Recipe, AveragesBuffersToo) {
  nn::Sequential net(nn::Linear(8, 4), nn::BatchNorm1d(4));
  optim::EMA ema(net, {.decay = 0.9, .use_buffers = true});
  for (int i = 0; i < 2; ++i) {
    net(randn({32, 8}));
    ema.update();  // the first one copies
  }
  const Tensor running = clone(net.get_buffer("1.running_mean"));
  ema.swap();
  const Tensor averaged = net.get_buffer("1.running_mean");
  EXPECT_NE(averaged.to_vector<float>(), running.to_vector<float>());
}

TEST(Recipe, AveragesAModelWithBatchNorm) {
  nn::Sequential net(nn::Linear(8, 4), nn::BatchNorm1d(4)), averaged(nn::Linear(8, 4), nn::BatchNorm1d(4));
  const Tensor examples = randn({32, 8});
  const data::TensorDataset set(examples, randint(0, 4, {32}));
  data::DataLoader loader(set, {.batch_size = 16});
  optim::EMA ema(net, {.decay = 0.9});
  for (const auto& [x, y] : loader) net(x);
  ema.update();
  ema.copy_to(averaged);
  nn::update_bn(loader, averaged);  // batch norm's statistics, of the averages
  const Tensor off = averaged.get_buffer("1.running_mean") - mean(averaged[0](examples), 0);
  EXPECT_LT(max(abs(off)).item<double>(), 1e-5);
}

TEST(Recipe, EverySchedule) {
  const nn::Linear net(4, 4);
  optim::Adam adam(net.parameters(), {.lr = 0.1, .betas = {0.9, 0.99}});
  ChainedScheduler chain({std::make_shared<StepLR>(adam, StepLROptions{.step_size = 2, .gamma = 0.1}),
                          std::make_shared<LinearLR>(adam, LinearLROptions{.start_factor = 0.5, .total_iters = 2})});
  optim::AdamW adamw(net.parameters(), {.lr = 0.1, .weight_decay = 0.05});
  LambdaLR decay(adamw, [](std::int64_t epoch) { return 1.0 / static_cast<double>(1 + epoch); });
  optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  OneCycleLR cycle(sgd, {.max_lr = 0.5, .total_steps = 100});
  optim::SGD other(net.parameters(), {.lr = 0.1});
  ReduceLROnPlateau plateau(other, {.factor = 0.5, .patience = 1});
  const auto rate = [](const optim::Optimizer& o) { return *o.param_groups()[0].lr; };
  for (int epoch = 0; epoch < 2; ++epoch) {
    chain.step();
    decay.step();
    cycle.step();  // after each batch
    plateau.step(/*metric=*/1.0);
  }
  EXPECT_NEAR(rate(adam), 0.01, 1e-15);
  EXPECT_NEAR(rate(adamw), 0.1 / 3, 1e-15);
  EXPECT_GT(rate(sgd), 0.02);
  plateau.step(1.0);
  EXPECT_EQ(rate(other), 0.05);
}

}  // namespace
}  // namespace bytetape
