#include "tests/training/deferred.h"

#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "bytetape/core/cpu/table.h"
#include "bytetape/core/kernels/activation.h"
#include "bytetape/core/kernels/arithmetic.h"
#include "bytetape/core/kernels/batch_norm.h"
#include "bytetape/core/kernels/compare.h"
#include "bytetape/core/kernels/conv.h"
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/kernels/dropout.h"
#include "bytetape/core/kernels/grad_scale.h"
#include "bytetape/core/kernels/images.h"
#include "bytetape/core/kernels/loss.h"
#include "bytetape/core/kernels/matmul.h"
#include "bytetape/core/kernels/optimizer.h"
#include "bytetape/core/kernels/pointwise.h"
#include "bytetape/core/kernels/pool.h"
#include "bytetape/core/kernels/random.h"
#include "bytetape/core/kernels/reduce.h"
#include "bytetape/core/kernels/table.h"
#include "bytetape/core/philox.h"

namespace bytetape::test {
namespace {

using Work = std::vector<std::function<void()>>;
Work* recorded = nullptr;  // where work goes while it is put off
void give(std::function<void()> work) { recorded ? recorded->push_back(std::move(work)) : work(); }

template <auto Kernel, class F>
struct Deferred;
template <auto Kernel, class... Args>
struct Deferred<Kernel, void (*)(Args...)> {
  static void run(Args... args) {
    give([kept = std::make_tuple(std::decay_t<Args>(args)...)] { std::apply(cpu::kernels().find(Kernel), kept); });
  }
};
template <auto Kernel, class Args>
void launch_deferred(const Args& args, const Plan& plan, Workspace ws) {
  give([=] { cpu::kernels().find(Kernel).launch(args, plan, ws); });
}
/// Puts off kernels of one family.
template <auto... kernels, class Family>
void defer(Family& family) {
  const auto one = [&]<auto Kernel>() {
    auto& entry = family.*Kernel;
    using Entry = std::remove_cvref_t<decltype(entry)>;
    if constexpr (requires { entry.plan; })
      entry = {cpu::kernels().find(Kernel).plan, launch_deferred<Kernel, typename Entry::Args>};
    else
      entry = Deferred<Kernel, Entry>::run;
  };
  (one.template operator()<kernels>(), ...);
}

void dropout(const DropoutArgs& args, const Plan& plan, Workspace ws) {
  give([=] {
    DropoutArgs now = args;
    now.state = started(args.state);
    cpu::dropout_kernels().dropout.launch(now, plan, ws);
  });
}
template <auto Kernel, class Slot, class Params>
void step_deferred(std::span<const Slot> slots, const Params& params) {
  give([kept = std::vector<Slot>(slots.begin(), slots.end()),
        step_params = std::vector(params.step_params.begin(), params.step_params.end()), params] {
    Params now = params;
    now.step_params = params.replay_params ? std::span(params.replay_params, kept.size()) : std::span(step_params);
    now.replay_params = nullptr;
    cpu::kernels().find(Kernel)(kept, now);
  });
}

void clip_grad_norm(const ClipGradNormArgs& args, const Plan& plan, Workspace ws) {
  give([=, gradients = std::vector(args.gradients.begin(), args.gradients.end())] {
    cpu::optimizer_kernels().clip_grad_norm.launch({gradients, args.norm, args.max_norm}, plan, ws);
  });
}

void clip_grad_value(std::span<const View> gradients, double clip_value) {
  give([=, kept = std::vector(gradients.begin(), gradients.end())] {
    cpu::optimizer_kernels().clip_grad_value(kept, clip_value);
  });
}

void unscale(const UnscaleArgs& args) {
  give([args, gradients = std::vector(args.gradients.begin(), args.gradients.end())] {
    cpu::grad_scale_kernels().unscale({gradients, args.scale, args.found_inf});
  });
}

void copy_all(std::span<const ConstView> from, std::span<const View> to) {
  give([from = std::vector(from.begin(), from.end()), to = std::vector(to.begin(), to.end())] {
    cpu::copy_kernels().copy_all(from, to);
  });
}

void widen_all(std::span<const ConstView> from, std::span<const View> to) {
  give([from = std::vector(from.begin(), from.end()), to = std::vector(to.begin(), to.end())] {
    cpu::copy_kernels().widen_all(from, to);
  });
}

/// Gives the table a family, filled in by `fill`.
template <class Family>
void add(KernelTable& table, void (*fill)(Family&)) {
  static Family family{};
  fill(family);
  table.set(family);
}

const KernelTable& kernels() {
  static const KernelTable all = [] {
    KernelTable table;
    add<ActivationKernels>(table, [](ActivationKernels& k) { defer<&ActivationKernels::bias_grad>(k); });
    add<ArithmeticKernels>(table, [](ArithmeticKernels& k) {
      defer<&ArithmeticKernels::add, &ArithmeticKernels::sub, &ArithmeticKernels::mul, &ArithmeticKernels::div,
            &ArithmeticKernels::neg>(k);
    });
    add<CompareKernels>(
        table, [](CompareKernels& k) { defer<&CompareKernels::eq, &CompareKernels::le, &CompareKernels::where>(k); });
    add<ConvKernels>(table, [](ConvKernels& k) {
      defer<&ConvKernels::conv2d, &ConvKernels::conv2d_input_grad, &ConvKernels::conv2d_weight_grad>(k);
      k.widens_weight_grad = [](const Conv2dWeightGradArgs& a) { return size_of(a.x.dtype) == 2; };
    });
    add<CopyKernels>(table, [](CopyKernels& k) {
      defer<&CopyKernels::fill, &CopyKernels::copy>(k);
      k.copy_all = copy_all;
      k.widen_all = widen_all;
    });
    add<DropoutKernels>(table, [](DropoutKernels& k) { k.dropout = {cpu::dropout_kernels().dropout.plan, dropout}; });
    add<GradScaleKernels>(table, [](GradScaleKernels& k) {
      defer<&GradScaleKernels::update_scale>(k);
      k.unscale = unscale;
    });
    add<ImagesKernels>(table, [](ImagesKernels& k) { defer<&ImagesKernels::gather_images>(k); });
    add<LossKernels>(table, [](LossKernels& k) {
      defer<&LossKernels::cross_entropy, &LossKernels::cross_entropy_backward, &LossKernels::cross_entropy_in_place>(k);
    });
    add<MatmulKernels>(table, [](MatmulKernels& k) { defer<&MatmulKernels::matmul>(k); });
    add<BatchNormKernels>(table, [](BatchNormKernels& k) {
      defer<&BatchNormKernels::batch_norm_train, &BatchNormKernels::batch_norm_apply,
            &BatchNormKernels::batch_norm_backward>(k);
    });
    add<OptimizerKernels>(table, [](OptimizerKernels& k) {
      k.sgd = step_deferred<&OptimizerKernels::sgd, SgdSlot, SgdParams>;
      k.adam = step_deferred<&OptimizerKernels::adam, AdamSlot, AdamParams>;
      k.rmsprop = step_deferred<&OptimizerKernels::rmsprop, RmspropSlot, RmspropParams>;
      k.ema = step_deferred<&OptimizerKernels::ema, OptimizerSlot, EmaParams>;
      k.clip_grad_norm = {cpu::optimizer_kernels().clip_grad_norm.plan, clip_grad_norm};
      k.clip_grad_value = clip_grad_value;
    });
    add<PointwiseKernels>(
        table, [](PointwiseKernels& k) { defer<&PointwiseKernels::relu, &PointwiseKernels::relu_backward>(k); });
    add<PoolKernels>(table,
                     [](PoolKernels& k) { defer<&PoolKernels::max_pool2d, &PoolKernels::max_pool2d_backward>(k); });
    add<RandomKernels>(table, [](RandomKernels& k) {
      defer<&RandomKernels::uniform, &RandomKernels::normal, &RandomKernels::randint>(k);
    });
    add<ReduceKernels>(table, [](ReduceKernels& k) { defer<&ReduceKernels::sum>(k); });
    return table;
  }();
  return all;
}

struct Replay final : DeviceGraph {
  Work work;
  void replay() override {
    for (const auto& each : work) each();
  }
};
std::unique_ptr<DeviceGraph> record(int, const std::function<void()>& work) {
  struct Recorder {
    explicit Recorder(Work& into) { recorded = &into; }
    ~Recorder() { recorded = nullptr; }
  };
  auto all = std::make_unique<Replay>();
  const Recorder recorder(all->work);
  work();
  return all;
}

}  // namespace

Backend deferred_backend() { return {.kernels = &kernels(), .record = record}; }

}  // namespace bytetape::test
