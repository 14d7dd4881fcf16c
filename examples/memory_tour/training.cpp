// The memory of a training step.
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <utility>

#include "examples/memory_tour/stop.h"

namespace bytetape::examples {
namespace {

using memory::Role;
using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)>;

Shown three_steps(const MakeOptimizer& optimizer_of) {
  return SHOWN([optimizer_of](Watch& at) {
    nn::Linear net(256, 250);
    const auto optimizer = optimizer_of(net.parameters());
    const Tensor x = batch({100, 256});
    for (int n = 1; n <= 3; ++n) {
      const memory::Step step;
      optimizer->zero_grad();
      at(fmt::format("step {}: zero_grad", n));
      Tensor y = net(x);
      at(fmt::format("step {}: forward", n));
      sum(y).backward();
      at(fmt::format("step {}: backward", n));
      y = Tensor();
      optimizer->step();
      at(fmt::format("step {}: step", n));
    }
  });
}

constexpr std::size_t parameters = 257024, x = 102400, y = 100352;

/// Returns the figures for an optimizer with `state` bytes of state, plus a count of skipped steps on a GPU.
std::vector<Figures> figures_of_three_steps(std::size_t state) {
  if (default_device().type == DeviceType::cuda) state += 512;
  std::vector<Figures> all;
  const auto add = [&](std::size_t states, std::size_t gradients, std::size_t results) {
    all.push_back({parameters + x + states + gradients + results,
                   {{Role::parameter, parameters},
                    {Role::input, x},
                    {Role::optimizer_state, states},
                    {Role::gradient, gradients},
                    {Role::temporary, results}}});
  };
  for (int n = 1; n <= 3; ++n) {
    const std::size_t held = n == 1 ? 0 : state;
    add(held, 0, 0);
    add(held, 0, y);
    add(held, parameters, y);
    add(state, parameters, 0);
  }
  return all;
}

}  // namespace

Stop optimizer_stop() {
  const Shown sgd = three_steps([](std::vector<Tensor> p) { return std::make_unique<optim::SGD>(std::move(p)); });
  const Shown momentum = three_steps([](std::vector<Tensor> p) {
    return std::make_unique<optim::SGD>(std::move(p), optim::SGDOptions{.momentum = 0.9});
  });
  const Shown adam = three_steps([](std::vector<Tensor> p) { return std::make_unique<optim::Adam>(std::move(p)); });
  const Look again{.has_code = false, .has_curve = true};
  return {
      "Why does the third step need more than the first? How much more does Adam need than SGD?",
      "Linear(256, 250), which has 257,024 bytes of parameters, and a batch of 100.",
      {{"SGD:", sgd, figures_of_three_steps(0), {.has_curve = true}},
       {"SGD with momentum:", momentum, figures_of_three_steps(parameters), again},
       {"Adam:", adam, figures_of_three_steps(2 * parameters), again}},
      "An optimizer allocates its state in the first step, after backward, and keeps it. Momentum takes as many bytes "
      "as the parameters, Adam twice as many. From the second step on the state adds to everything else, so a batch "
      "that fits the first step may not fit the second. The step itself takes no memory here; PyTorch's takes as much "
      "as "
      "the parameters. On a GPU a count of skipped steps takes 512 bytes more."};
}

}  // namespace bytetape::examples
