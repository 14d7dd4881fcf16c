// Captured steps against the same steps as they are, bit for bit, on a device of the host's memory whose kernels are
// the CPU's: while a step is recorded they are put off, and a replay runs them.
#include "bytetape/autograd/capture.h"

#include <cstring>
#include <functional>
#include <limits>
#include <tuple>

#include "bench/resnet.h"
#include "bytetape/bytetape.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/philox.h"
#include "tests/support/expect.h"
#include "tests/support/memory.h"

namespace bytetape {
namespace {

using Work = std::vector<std::function<void()>>;
Work* recorded = nullptr;
void give(std::function<void()> work) { recorded ? recorded->push_back(std::move(work)) : work(); }

template <auto Kernel, class F>
struct Deferred;
template <auto Kernel, class... Args>
struct Deferred<Kernel, void (*)(Args...)> {
  static void run(Args... args) {
    give([kept = std::make_tuple(std::decay_t<Args>(args)...)] { std::apply(cpu::kernels().*Kernel, kept); });
  }
};
template <auto Kernel, class Args>
void launch_deferred(const Args& args, const Plan& plan, Workspace ws) {
  give([=] { (cpu::kernels().*Kernel).launch(args, plan, ws); });
}
template <auto... kernels>
void defer(Kernels& k) {
  const auto one = [&]<auto Kernel>() {
    using Entry = std::remove_cvref_t<decltype(k.*Kernel)>;
    if constexpr (requires { (k.*Kernel).plan; })
      k.*Kernel = {(cpu::kernels().*Kernel).plan, launch_deferred<Kernel, typename Entry::Args>};
    else
      k.*Kernel = Deferred<Kernel, Entry>::run;
  };
  (one.template operator()<kernels>(), ...);
}

void dropout(const DropoutArgs& args, const Plan& plan, Workspace ws) {
  give([=] {
    DropoutArgs now = args;
    now.state = started(args.state);
    cpu::kernels().dropout.launch(now, plan, ws);
  });
}
template <auto Kernel, class Slot, class Params>
void step_deferred(std::span<const Slot> slots, const Params& params) {
  give([kept = std::vector<Slot>(slots.begin(), slots.end()),
        paces = std::vector(params.paces.begin(), params.paces.end()), params] {
    Params now = params;
    now.paces = params.carried ? std::span(params.carried, kept.size()) : std::span(paces);
    now.carried = nullptr;
    (cpu::kernels().*Kernel)(kept, now);
  });
}
void unscale_deferred(const UnscaleArgs& args) {
  give([args, gradients = std::vector<View>(args.gradients.begin(), args.gradients.end())] {
    cpu::kernels().unscale({gradients, args.scale, args.found_inf});
  });
}
void clip_deferred(const ClipGradNormArgs& args, const Plan& plan, Workspace ws) {
  give([=, gradients = std::vector<View>(args.gradients.begin(), args.gradients.end())] {
    cpu::kernels().clip_grad_norm.launch({gradients, args.norm, args.max_norm}, plan, ws);
  });
}

const Kernels& deferred_kernels() {
  static const Kernels all = [] {
    using K = Kernels;
    Kernels k;
    defer<&K::bias_grad, &K::add, &K::sub, &K::mul, &K::div, &K::neg, &K::eq, &K::le, &K::where, &K::conv2d,
          &K::conv2d_input_grad, &K::conv2d_weight_grad, &K::fill, &K::copy, &K::cross_entropy,
          &K::cross_entropy_backward, &K::matmul, &K::batch_norm_statistics, &K::batch_norm_apply,
          &K::batch_norm_backward, &K::relu, &K::relu_backward, &K::sum, &K::uniform, &K::normal, &K::randint,
          &K::update_scale>(k);
    k.dropout = {cpu::kernels().dropout.plan, dropout};
    k.sgd = step_deferred<&K::sgd, SgdSlot, SgdParams>;
    k.clip_grad_norm = {cpu::kernels().clip_grad_norm.plan, clip_deferred};
    k.unscale = unscale_deferred;
    k.adam = step_deferred<&K::adam, AdamSlot, AdamParams>;
    return k;
  }();
  return all;
}

struct Replay final : Recording {
  Work work;
  void replay() override {
    for (const auto& each : work) each();
  }
};
std::unique_ptr<Recording> record(int, const std::function<void()>& work) {
  auto all = std::make_unique<Replay>();
  recorded = &all->work;
  work();
  recorded = nullptr;
  return all;
}
memory::Allocator& device_memory(int) {
  static memory::Allocator a(Device::cuda(), std::make_unique<memory::HostUpstream>());
  return a;
}
void transfer(Place<const void*> from, Place<void*> to, std::size_t bytes) { std::memcpy(to.data, from.data, bytes); }

enum class Rule { sgd, adam };

std::unique_ptr<optim::Optimizer> make_optimizer(Rule rule, std::vector<Tensor> parameters) {
  if (rule == Rule::adam) return std::make_unique<optim::Adam>(std::move(parameters), optim::AdamOptions{.lr = 3e-3});
  return std::make_unique<optim::SGD>(
      std::move(parameters), optim::SGDOptions{.lr = 0.02, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
}

/// What ten steps of a small residual network come to.
std::vector<std::vector<float>> train(Rule rule, DType computed, bool captured) {
  const DefaultDevice here(Device::cuda());
  manual_seed(1);
  nn::Sequential net(nn::Conv2d(3, 8, 3, {.padding = 1, .bias = false}), nn::BatchNorm2d(8), nn::ReLU());
  net.push_back(bench::BasicBlock(8, 8, 1)).push_back(bench::BasicBlock(8, 16, 2)).push_back(nn::Dropout(0.2));
  net.push_back(bench::GlobalAveragePool()).push_back(nn::Linear(16, 10));
  const auto optimizer = make_optimizer(rule, net.parameters());
  const auto step = [&](const Tensor& x, const Tensor& y) {
    const Autocast autocast(computed);
    optimizer->zero_grad();
    Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    optimizer->step();
    return loss.detach();
  };
  auto captured_step = capture(step);
  std::vector<std::vector<float>> left;
  for (int i = 0; i < 10; ++i) {
    optimizer->set_lr(0.02 / (i + 1));
    const Tensor x = randn({6, 3, 8, 8}), y = randint(0, 10, {6});
    left.push_back((captured ? captured_step(x, y) : step(x, y)).to_vector<float>());
  }
  EXPECT_EQ(captured_step.is_captured(), captured);
  for (const auto& [name, x] : net.state_dict()) left.push_back(x.detach().to_vector<float>());
  for (const Tensor& p : net.parameters()) left.push_back(p.grad().to_vector<float>());
  return left;
}

/// What twelve steps under a gradient scaler come to, where the losses of steps 1, 4, 5 and 8 overflow.
std::vector<std::vector<float>> train_scaled(Rule rule, bool clips, bool captured) {
  const DefaultDevice here(Device::cuda());
  manual_seed(1);
  nn::Sequential net(nn::Linear(6, 16), nn::ReLU(), nn::Linear(16, 4));
  const auto optimizer = make_optimizer(rule, net.parameters());
  optim::GradScaler scaler({.growth_interval = 2});
  const auto step = [&](const Tensor& x, const Tensor& y, const Tensor& boost) {
    optimizer->zero_grad();
    Tensor loss;
    {
      const Autocast autocast(DType::f16);
      loss = cross_entropy(net(x), y);
    }
    scaler.scale(loss * boost).backward();
    if (clips) {
      scaler.unscale_(*optimizer);
      optim::clip_grad_norm_(net.parameters(), 0.1);
    }
    scaler.step(*optimizer);
    scaler.update();
    return loss.detach();
  };
  auto captured_step = capture(step);
  std::vector<std::vector<float>> left;
  for (int i = 0; i < 12; ++i) {
    optimizer->set_lr(0.02 / (i + 1));
    const Tensor x = randn({6, 6}), y = randint(0, 4, {6});
    const bool overflows = i == 1 || i == 4 || i == 5 || i == 8;
    const Tensor boost = full({}, overflows ? std::numeric_limits<double>::infinity() : 1);
    left.push_back((captured ? captured_step(x, y, boost) : step(x, y, boost)).to_vector<float>());
    for (const Tensor& p : net.parameters()) left.push_back(p.detach().to_vector<float>());
    const auto [scale, growth, backoff, interval, tracker] = scaler.state_dict();
    left.push_back({static_cast<float>(scale), static_cast<float>(tracker)});
  }
  EXPECT_EQ(scaler.get_scale(), 65536.0 / 2 * 2 / 4 * 2 / 2 * 2);
  EXPECT_EQ(captured_step.is_captured(), captured);
  return left;
}

class CapturedTraining : public testing::Test {
 protected:
  CapturedTraining() {
    register_backend(DeviceType::cuda, {.kernels = &deferred_kernels(),
                                        .allocator = device_memory,
                                        .meta_allocator = device_memory,
                                        .transfer = transfer,
                                        .record = record});
  }
  ~CapturedTraining() override {
    EXPECT_EQ(test::allocated(Device::cuda()), 0u);
    register_backend(DeviceType::cuda, {});
  }
};

TEST_F(CapturedTraining, IsTheStepsBitForBit) {
  for (const Rule rule : {Rule::sgd, Rule::adam}) {
    SCOPED_TRACE(rule == Rule::sgd ? "SGD" : "Adam");
    for (const DType computed : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(detail::concat(computed));
      EXPECT_EQ(train(rule, computed, true), train(rule, computed, false));
    }
  }
}

TEST_F(CapturedTraining, IsTheStepsUnderAGradientScaler) {
  for (const Rule rule : {Rule::sgd, Rule::adam})
    for (const bool clips : {false, true})
      EXPECT_EQ(train_scaled(rule, clips, true), train_scaled(rule, clips, false)) << "clips: " << clips;
}

}  // namespace
}  // namespace bytetape
