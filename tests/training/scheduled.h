#pragma once
#include <memory>
#include <vector>

#include "tests/training/net_training.h"

namespace bytetape::test {

/// What twelve steps of two groups come to on the default device: one cycle of rates and momentum, gradients clipped by
/// value, a moving average; the weight decay of a group changes on the way.
inline std::vector<std::vector<float>> train_scheduled(Rule rule, bool captured) {
  manual_seed(5);
  nn::Sequential net(nn::Linear(6, 16), nn::ReLU(), nn::Linear(16, 4));
  const std::vector<Tensor> all = net.parameters();
  const std::vector<optim::ParamGroup> groups{{.params = {all[0], all[2]}, .weight_decay = 0.1},
                                              {.params = {all[1], all[3]}}};
  std::unique_ptr<optim::Optimizer> optimizer;
  if (rule == Rule::sgd)
    optimizer = std::make_unique<optim::SGD>(groups, optim::SGDOptions{.momentum = 0.9});
  else if (rule == Rule::rmsprop)
    optimizer = std::make_unique<optim::RMSprop>(groups, optim::RMSpropOptions{.momentum = 0.9});
  else
    optimizer = std::make_unique<optim::AdamW>(groups);
  optim::lr_scheduler::OneCycleLR schedule(*optimizer, {.max_lr = {0.1, 0.03}, .total_steps = 12});
  optim::EMA ema(all, {.decay = 0.8});
  const auto step = [&](const Tensor& x, const Tensor& y) {
    optimizer->zero_grad();
    Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    optim::clip_grad_value_(all, 0.05);
    optimizer->step();
    ema.update();
    return loss.detach();
  };
  auto captured_step = capture(step);
  std::vector<std::vector<float>> left;
  for (int i = 0; i < 12; ++i) {
    const Tensor x = randn({6, 6}), y = randint(0, 4, {6});
    left.push_back((captured ? captured_step(x, y) : step(x, y)).to_vector<float>());
    schedule.step();
    optimizer->param_groups()[0].weight_decay = 0.1 / (i + 1);
  }
  if (captured != captured_step.is_captured()) left.clear();  // which is not what was to be tried
  for (const auto* list : {&all, &ema.averages()})
    for (const Tensor& x : *list) left.push_back(x.detach().to_vector<float>());
  return left;
}

}  // namespace bytetape::test
