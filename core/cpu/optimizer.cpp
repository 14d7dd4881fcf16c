#include <cmath>

#include "bytetape/core/cpu/elementwise.h"
#include "bytetape/core/cpu/table.h"

namespace bytetape::cpu {
namespace {

/// f(slot, begin, end) for stretches of elements that together are all of all slots, shared evenly among the threads.
template <class Slot, class F>
void for_each_stretch(std::span<const Slot> slots, F&& f) {
  std::int64_t total = 0;
  for (const Slot& s : slots) total += s.parameter.numel();
  parallel_for(total, grain / 2, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t first = 0;
    for (const Slot& s : slots) {
      const std::int64_t count = s.parameter.numel(), from = std::max(begin - first, std::int64_t{0}),
                         to = std::min(end - first, count);
      if (from < to) f(s, from, to);
      first += count;
    }
  });
}

/// Momentum's three cases are settled before the loop, which then has no branches.
template <bool momentum, bool first_step, bool nesterov, class T>
void sgd_stretch(const SgdParams& p, std::int64_t count, T* __restrict parameter, const T* __restrict gradient,
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

template <class T>
void adam_stretch(const AdamParams& p, std::int64_t step, std::int64_t count, T* __restrict parameter,
                  const T* __restrict gradient, T* __restrict exp_avg, T* __restrict exp_avg_sq) {
  using C = compute_t<T>;
  const auto n = static_cast<double>(step);
  const double correction1 = 1 - std::pow(p.beta1, n), correction2 = 1 - std::pow(p.beta2, n);
  const auto keep = static_cast<C>(p.decoupled ? 1 - p.lr * p.weight_decay : 1),
             decay = static_cast<C>(p.decoupled ? 0 : p.weight_decay), take1 = static_cast<C>(1 - p.beta1),
             keep2 = static_cast<C>(p.beta2), take2 = static_cast<C>(1 - p.beta2),
             rate = static_cast<C>(p.lr / correction1), root2 = static_cast<C>(std::sqrt(correction2)),
             eps = static_cast<C>(p.eps);
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

void sgd(std::span<const SgdSlot> slots, const SgdParams& p) {
  for_each_stretch(slots, [&](const SgdSlot& s, std::int64_t begin, std::int64_t end) {
    visit_floating(s.parameter.dtype, [&](auto zero) {
      using T = decltype(zero);
      T *parameter = s.parameter.as<T>() + begin,
        *buffer = p.momentum != 0 ? s.momentum_buffer.as<T>() + begin : nullptr;
      const T* gradient = s.gradient.as<T>() + begin;
      const auto stretch = [&](auto momentum, auto first_step, auto nesterov) {
        sgd_stretch<momentum, first_step, nesterov>(p, end - begin, parameter, gradient, buffer);
      };
      using No = std::false_type;
      using Yes = std::true_type;
      if (p.momentum == 0)
        stretch(No(), No(), No());
      else if (s.first_step)
        p.nesterov ? stretch(Yes(), Yes(), Yes()) : stretch(Yes(), Yes(), No());
      else
        p.nesterov ? stretch(Yes(), No(), Yes()) : stretch(Yes(), No(), No());
    });
  });
}

void adam(std::span<const AdamSlot> slots, const AdamParams& p) {
  for_each_stretch(slots, [&](const AdamSlot& s, std::int64_t begin, std::int64_t end) {
    visit_floating(s.parameter.dtype, [&](auto zero) {
      using T = decltype(zero);
      adam_stretch(p, s.step, end - begin, s.parameter.as<T>() + begin, s.gradient.as<T>() + begin,
                   s.exp_avg.as<T>() + begin, s.exp_avg_sq.as<T>() + begin);
    });
  });
}

}  // namespace

OptimizerKernels optimizer_kernels() {
  return {
      .sgd = sgd,
      .adam = adam,
  };
}

}  // namespace bytetape::cpu
