#include <cmath>

#include "bytetape/core/cpu/clip.h"
#include "bytetape/core/cpu/gradients.h"
#include "bytetape/core/cpu/muon.h"
#include "bytetape/core/cpu/stretch.h"
#include "bytetape/core/cpu/table.h"
#include "bytetape/core/visit.h"

namespace bytetape::cpu {
namespace {

void write_shadow(const OptimizerSlot& s, std::int64_t begin, std::int64_t end) {
  const float* parameter = s.parameter.as<float>();
  visit_floating(s.shadow.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t i = begin; i < end; ++i) s.shadow.as<T>()[i] = static_cast<T>(parameter[i]);
  });
}

/// for_each_stretch() over parameters. Each stretch is then copied to the parameter's shadow while it is in the cache.
template <class Slot, class F>
void for_each_slot_stretch(std::span<const Slot> slots, F&& f) {
  constexpr std::int64_t cached = 4096;
  for_each_stretch(
      slots.size(), [&](std::size_t i) -> const View& { return slots[i].parameter; },
      [&](std::size_t i, std::int64_t begin, std::int64_t end) {
        if (!slots[i].shadow.defined()) return f(i, begin, end);
        for (std::int64_t at = begin; at < end; at += cached) {
          const std::int64_t stop = std::min(at + cached, end);
          f(i, at, stop);
          write_shadow(slots[i], at, stop);
        }
      });
}

/// The cases of momentum are template parameters, so that the loop has no branches.
template <bool momentum, bool first_step, bool nesterov, class T, class G>
void sgd_stretch(const SgdStepParams& p, std::int64_t count, T* __restrict parameter, const G* __restrict gradient,
                 T* __restrict buffer) {
  using C = compute_t<T>;
  const auto lr = static_cast<C>(p.lr), decay = static_cast<C>(p.weight_decay), keep = static_cast<C>(p.momentum),
             take = static_cast<C>(1 - p.dampening);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<C>(parameter[i]);
    C step = static_cast<C>(gradient[i]) + decay * x;
    if constexpr (momentum) {
      C moved = step;
      if constexpr (!first_step) moved = keep * static_cast<C>(buffer[i]) + take * step;
      buffer[i] = static_cast<T>(moved);
      step = nesterov ? step + keep * moved : moved;
    }
    parameter[i] = static_cast<T>(x - lr * step);
  }
}

template <class T, class G>
void adam_stretch(const AdamStepParams& p, std::int64_t count, T* __restrict parameter, const G* __restrict gradient,
                  T* __restrict exp_avg, T* __restrict exp_avg_sq) {
  using C = compute_t<T>;
  const auto keep = static_cast<C>(p.keep), decay = static_cast<C>(p.weight_decay), take1 = static_cast<C>(1 - p.beta1),
             keep2 = static_cast<C>(p.beta2), take2 = static_cast<C>(1 - p.beta2), rate = static_cast<C>(p.rate),
             root2 = static_cast<C>(p.root2), eps = static_cast<C>(p.eps);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<C>(parameter[i]), before = static_cast<C>(exp_avg[i]);
    const C g = static_cast<C>(gradient[i]) + decay * x;
    const C m = before + take1 * (g - before);
    const C v = keep2 * static_cast<C>(exp_avg_sq[i]) + take2 * (g * g);
    exp_avg[i] = static_cast<T>(m);
    exp_avg_sq[i] = static_cast<T>(v);
    parameter[i] = static_cast<T>(keep * x - rate * (m / (std::sqrt(v) / root2 + eps)));
  }
}

/// The cases of momentum and centering are template parameters, so that the loop has no branches.
template <bool momentum, bool centered, class T, class G>
void rmsprop_stretch(const RmspropStepParams& p, std::int64_t count, T* __restrict parameter,
                     const G* __restrict gradient, T* __restrict square_avg, T* __restrict buffer,
                     T* __restrict grad_avg) {
  using C = compute_t<T>;
  const auto lr = static_cast<C>(p.lr), decay = static_cast<C>(p.weight_decay), keep = static_cast<C>(p.alpha),
             take = static_cast<C>(1 - p.alpha), eps = static_cast<C>(p.eps), inertia = static_cast<C>(p.momentum);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<C>(parameter[i]);
    const C g = static_cast<C>(gradient[i]) + decay * x;
    C square = keep * static_cast<C>(square_avg[i]) + take * (g * g);
    square_avg[i] = static_cast<T>(square);
    if constexpr (centered) {
      const auto before = static_cast<C>(grad_avg[i]);
      const C mean = before + take * (g - before);
      grad_avg[i] = static_cast<T>(mean);
      square -= mean * mean;
    }
    C step = g / (std::sqrt(square) + eps);
    if constexpr (momentum) {
      step = inertia * static_cast<C>(buffer[i]) + step;
      buffer[i] = static_cast<T>(step);
    }
    parameter[i] = static_cast<T>(x - lr * step);
  }
}

template <class T, class G>
void ema_stretch(double weight, std::int64_t count, T* __restrict average, const G* __restrict next) {
  using C = compute_t<T>;
  for (std::int64_t i = 0; i < count; ++i)
    average[i] = static_cast<T>(lerp(static_cast<C>(average[i]), static_cast<C>(next[i]), static_cast<C>(weight)));
}

template <class T, class D>
void muon_stretch(const MuonStepParams& p, std::int64_t count, T* __restrict parameter, const D* __restrict direction) {
  using C = compute_t<T>;
  const auto lr = static_cast<C>(p.lr), keep = static_cast<C>(p.keep);
  for (std::int64_t i = 0; i < count; ++i)
    parameter[i] = static_cast<T>(keep * static_cast<C>(parameter[i]) - lr * static_cast<C>(direction[i]));
}

/// Whether the gradient scaler skips the step. Counts skips per parameter.
template <class Slot>
bool skips(std::span<const Slot> slots, const float* found_inf) {
  const bool skipped = found_inf && *found_inf != 0;
  if (skipped)
    for (const Slot& s : slots) ++*s.skipped;
  return skipped;
}

/// Calls stretch(slot, step params, begin, end, gradient, zero of the parameter's type) for stretches of all slots,
/// unless the step is skipped. `gradient` points to the stretch.
template <class Slot, class StepParams, class F>
void update_all(std::span<const Slot> slots, const OptimizerParams<StepParams>& p, F&& stretch) {
  if (p.late.wait) p.late.wait();
  if (skips(slots, p.found_inf)) return;
  for_each_slot_stretch(slots, [&](std::size_t k, std::int64_t begin, std::int64_t end) {
    const Slot& s = slots[k];
    const StepParams params = p.found_inf ? after_skips(p.step_params[k], *s.skipped) : p.step_params[k];
    visit_floating(s.parameter.dtype, [&](auto zero) {
      visit_gradient<decltype(zero)>(
          s.gradient, [&](const auto* gradient) { stretch(s, params, begin, end, gradient + begin, zero); });
    });
  });
}

void sgd(std::span<const SgdSlot> slots, const SgdParams& p) {
  update_all(slots, p,
             [](const SgdSlot& s, const SgdStepParams& params, std::int64_t begin, std::int64_t end,
                const auto* gradient, auto zero) {
               using T = decltype(zero);
               T *parameter = s.parameter.as<T>() + begin,
                 *buffer = params.momentum != 0 ? s.momentum_buffer.as<T>() + begin : nullptr;
               const auto stretch = [&](auto momentum, auto first_step, auto nesterov) {
                 sgd_stretch<momentum, first_step, nesterov>(params, end - begin, parameter, gradient, buffer);
               };
               using No = std::false_type;
               using Yes = std::true_type;
               if (params.momentum == 0)
                 stretch(No(), No(), No());
               else if (params.step == 1)
                 params.is_nesterov ? stretch(Yes(), Yes(), Yes()) : stretch(Yes(), Yes(), No());
               else
                 params.is_nesterov ? stretch(Yes(), No(), Yes()) : stretch(Yes(), No(), No());
             });
}

void adam(std::span<const AdamSlot> slots, const AdamParams& p) {
  update_all(slots, p,
             [](const AdamSlot& s, const AdamStepParams& params, std::int64_t begin, std::int64_t end,
                const auto* gradient, auto zero) {
               using T = decltype(zero);
               adam_stretch(params, end - begin, s.parameter.as<T>() + begin, gradient, s.exp_avg.as<T>() + begin,
                            s.exp_avg_sq.as<T>() + begin);
             });
}

void rmsprop(std::span<const RmspropSlot> slots, const RmspropParams& p) {
  update_all(slots, p,
             [](const RmspropSlot& s, const RmspropStepParams& params, std::int64_t begin, std::int64_t end,
                const auto* gradient, auto zero) {
               using T = decltype(zero);
               const bool has_momentum = params.momentum != 0, is_centered = params.is_centered != 0;
               const auto stretch = [&](auto momentum, auto centered) {
                 rmsprop_stretch<momentum, centered>(params, end - begin, s.parameter.as<T>() + begin, gradient,
                                                     s.square_avg.as<T>() + begin,
                                                     has_momentum ? s.momentum_buffer.as<T>() + begin : nullptr,
                                                     is_centered ? s.grad_avg.as<T>() + begin : nullptr);
               };
               using No = std::false_type;
               using Yes = std::true_type;
               if (has_momentum)
                 is_centered ? stretch(Yes(), Yes()) : stretch(Yes(), No());
               else
                 is_centered ? stretch(No(), Yes()) : stretch(No(), No());
             });
}

void ema(std::span<const OptimizerSlot> slots, const EmaParams& p) {
  update_all(slots, p,
             [](const OptimizerSlot& s, const EmaStepParams& params, std::int64_t begin, std::int64_t end,
                const auto* gradient, auto zero) {
               using T = decltype(zero);
               ema_stretch(params.weight, end - begin, s.parameter.as<T>() + begin, gradient);
             });
}

void muon(std::span<const MuonSlot> slots, const MuonParams& p) {
  update_all(slots, p,
             [](const MuonSlot& s, const MuonStepParams& params, std::int64_t begin, std::int64_t end,
                const auto* gradient, auto zero) {
               using T = decltype(zero);
               ema_stretch(1 - params.momentum, end - begin, s.momentum_buffer.as<T>() + begin, gradient);
               visit_gradient<T>(s.direction, [&](const auto* direction) {
                 muon_stretch(params, end - begin, s.parameter.as<T>() + begin, direction + begin);
               });
             });
}

}  // namespace

const OptimizerKernels& optimizer_kernels() {
  static const OptimizerKernels all{
      .sgd = sgd,
      .adam = adam,
      .rmsprop = rmsprop,
      .muon = muon,
      .muon_direction = {plan, muon_direction},
      .muon_polynomial = muon_polynomial,
      .ema = ema,
      .clip_grad_value = clip_grad_value,
      .clip_grad_norm = {plan, clip_grad_norm},
  };
  return all;
}

}  // namespace bytetape::cpu
