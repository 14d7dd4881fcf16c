#include "tests/training/deferred.h"
#include "bytetape/core/kernels.h"

#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "bytetape/core/cpu/table.h"
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

void clip_grad_norm(const ClipGradNormArgs& args, const Plan& plan, Workspace ws) {
  give([=, gradients = std::vector(args.gradients.begin(), args.gradients.end())] {
    cpu::kernels().clip_grad_norm.launch({gradients, args.norm, args.max_norm}, plan, ws);
  });
}

void clip_grad_value(std::span<const View> gradients, double clip_value) {
  give([=, kept = std::vector(gradients.begin(), gradients.end())] {
    cpu::kernels().clip_grad_value(kept, clip_value);
  });
}

void unscale(const UnscaleArgs& args) {
  give([args, gradients = std::vector(args.gradients.begin(), args.gradients.end())] {
    cpu::kernels().unscale({gradients, args.scale, args.found_inf});
  });
}

void widen_all(std::span<const ConstView> from, std::span<const View> to) {
  give([from = std::vector(from.begin(), from.end()), to = std::vector(to.begin(), to.end())] {
    cpu::kernels().widen_all(from, to);
  });
}

const Kernels& kernels() {
  static const Kernels all = [] {
    using K = Kernels;
    Kernels k;
    defer<&K::bias_grad, &K::add, &K::sub, &K::mul, &K::div, &K::neg, &K::eq, &K::le, &K::where, &K::conv2d,
          &K::conv2d_input_grad, &K::conv2d_weight_grad, &K::fill, &K::copy, &K::cross_entropy,
          &K::cross_entropy_backward, &K::matmul, &K::batch_norm_statistics, &K::batch_norm_apply,
          &K::batch_norm_backward, &K::relu, &K::relu_backward, &K::sum, &K::uniform, &K::normal, &K::randint,
          &K::update_scale, &K::gather_images, &K::max_pool2d, &K::max_pool2d_backward>(k);
    k.dropout = {cpu::kernels().dropout.plan, dropout};
    k.clip_grad_norm = {cpu::kernels().clip_grad_norm.plan, clip_grad_norm};
    k.clip_grad_value = clip_grad_value;
    k.unscale = unscale;
    k.widen_all = widen_all;
    k.widens_weight_grad = [](const Conv2dWeightGradArgs& a) { return size_of(a.x.dtype) == 2; };
    k.sgd = step_deferred<&K::sgd, SgdSlot, SgdParams>;
    k.adam = step_deferred<&K::adam, AdamSlot, AdamParams>;
    k.ema = step_deferred<&K::ema, OptimizerSlot, EmaParams>;
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
