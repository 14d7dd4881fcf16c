#include <cmath>
#include <numeric>

#include "bytetape/core/cpu/elementwise.h"
#include "bytetape/core/cpu/stretch.h"
#include "bytetape/core/cpu/sum.h"
#include "bytetape/core/cpu/table.h"

namespace bytetape::cpu {
namespace {

void write_shadow(const OptimizerSlot& s, std::int64_t begin, std::int64_t end) {
  const float* parameter = s.parameter.as<float>();
  visit_floating(s.shadow.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t i = begin; i < end; ++i) s.shadow.as<T>()[i] = static_cast<T>(parameter[i]);
  });
}

/// for_each_stretch of parameters, and then of their shadows, while a stretch is in the cache.
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

/// Momentum's three cases are settled before the loop, which then has no branches.
template <bool momentum, bool first_step, bool nesterov, class T>
void sgd_stretch(const SgdParams& p, const SgdPace& pace, std::int64_t count, T* __restrict parameter,
                 const T* __restrict gradient, T* __restrict buffer) {
  using C = compute_t<T>;
  const auto lr = static_cast<C>(pace.lr), decay = static_cast<C>(p.weight_decay), keep = static_cast<C>(p.momentum),
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
void adam_stretch(const AdamParams& p, const AdamPace& pace, std::int64_t count, T* __restrict parameter,
                  const T* __restrict gradient, T* __restrict exp_avg, T* __restrict exp_avg_sq) {
  using C = compute_t<T>;
  const auto keep = static_cast<C>(pace.keep), decay = static_cast<C>(p.weight_decay),
             take1 = static_cast<C>(1 - p.beta1), keep2 = static_cast<C>(p.beta2), take2 = static_cast<C>(1 - p.beta2),
             rate = static_cast<C>(pace.rate), root2 = static_cast<C>(pace.root2), eps = static_cast<C>(p.eps);
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

/// Whether a gradient scaler has the step skipped, which is counted.
template <class Slot>
bool skips(std::span<const Slot> slots, const float* found_inf) {
  const bool skipped = found_inf && *found_inf != 0;
  if (skipped)
    for (const Slot& s : slots) ++*s.skipped;
  return skipped;
}

SgdPace pace_of(const SgdSlot& s, const SgdPace& given, const SgdParams& p) {
  return p.found_inf ? SgdPace{given.lr, given.step - *s.skipped} : given;
}
AdamPace pace_of(const AdamSlot& s, const AdamPace& given, const AdamParams& p) {
  return p.found_inf ? adam_pace(given.lr, given.keep, p.beta1, p.beta2, given.step - *s.skipped) : given;
}

void sgd(std::span<const SgdSlot> slots, const SgdParams& p) {
  if (skips(slots, p.found_inf)) return;
  for_each_slot_stretch(slots, [&](std::size_t k, std::int64_t begin, std::int64_t end) {
    const SgdSlot& s = slots[k];
    const SgdPace pace = pace_of(s, p.paces[k], p);
    visit_floating(s.parameter.dtype, [&](auto zero) {
      using T = decltype(zero);
      T *parameter = s.parameter.as<T>() + begin,
        *buffer = p.momentum != 0 ? s.momentum_buffer.as<T>() + begin : nullptr;
      const T* gradient = s.gradient.as<T>() + begin;
      const auto stretch = [&](auto momentum, auto first_step, auto nesterov) {
        sgd_stretch<momentum, first_step, nesterov>(p, pace, end - begin, parameter, gradient, buffer);
      };
      using No = std::false_type;
      using Yes = std::true_type;
      if (p.momentum == 0)
        stretch(No(), No(), No());
      else if (pace.step == 1)
        p.nesterov ? stretch(Yes(), Yes(), Yes()) : stretch(Yes(), Yes(), No());
      else
        p.nesterov ? stretch(Yes(), No(), Yes()) : stretch(Yes(), No(), No());
    });
  });
}

void adam(std::span<const AdamSlot> slots, const AdamParams& p) {
  if (skips(slots, p.found_inf)) return;
  for_each_slot_stretch(slots, [&](std::size_t k, std::int64_t begin, std::int64_t end) {
    const AdamSlot& s = slots[k];
    const AdamPace pace = pace_of(s, p.paces[k], p);
    visit_floating(s.parameter.dtype, [&](auto zero) {
      using T = decltype(zero);
      adam_stretch(p, pace, end - begin, s.parameter.as<T>() + begin, s.gradient.as<T>() + begin,
                   s.exp_avg.as<T>() + begin, s.exp_avg_sq.as<T>() + begin);
    });
  });
}

/// Of a gradient, so many elements are squared and added up by one thread, whatever threads there are.
constexpr std::int64_t norm_piece = 16384;

std::int64_t pieces_of(const View& gradient) { return (gradient.numel() + norm_piece - 1) / norm_piece; }

Plan plan(const ClipGradNormArgs& args) {
  std::int64_t pieces = 0;
  for (const View& g : args.gradients) pieces += pieces_of(g);
  return {static_cast<std::size_t>(pieces) * sizeof(double)};
}

template <class T>
double sum_of_squares(const T* x, std::int64_t n) {
  const Eigen::Map<const Array<T>> values(x, n);
  return sum_of(values.unaryExpr([](T v) { return static_cast<double>(v); }).square());
}

void clip_grad_norm(const ClipGradNormArgs& args, const Plan& plan, Workspace ws) {
  auto* sums = static_cast<double*>(ws.data);
  for (std::size_t i = 0, first = 0; i < args.gradients.size(); ++i) {
    const View& g = args.gradients[i];
    const std::int64_t pieces = pieces_of(g);
    parallel_for(pieces, 2, [&](std::int64_t begin, std::int64_t end) {
      visit_floating(g.dtype, [&](auto zero) {
        using T = decltype(zero);
        for (std::int64_t k = begin, at = k * norm_piece; k < end; ++k, at += norm_piece)
          sums[first + static_cast<std::size_t>(k)] =
              sum_of_squares(g.as<T>() + at, std::min(norm_piece, g.numel() - at));
      });
    });
    first += static_cast<std::size_t>(pieces);
  }
  const double norm = std::sqrt(std::accumulate(sums, sums + plan.workspace / sizeof(double), 0.0));
  visit_floating(args.norm.dtype,
                 [&](auto zero) { *args.norm.as<decltype(zero)>() = static_cast<decltype(zero)>(norm); });
  const double factor = args.max_norm / (norm + 1e-6);
  if (factor >= 1) return;  // not so of NaN, which goes into the gradients
  for_each_stretch(
      args.gradients.size(), [&](std::size_t i) -> const View& { return args.gradients[i]; },
      [&](std::size_t i, std::int64_t begin, std::int64_t end) {
        visit_floating(args.gradients[i].dtype, [&](auto zero) {
          using T = decltype(zero);
          using C = compute_t<T>;
          T* g = args.gradients[i].as<T>();
          for (std::int64_t k = begin; k < end; ++k)
            g[k] = static_cast<T>(static_cast<C>(g[k]) * static_cast<C>(factor));
        });
      });
}

}  // namespace

OptimizerKernels optimizer_kernels() {
  return {
      .sgd = sgd,
      .adam = adam,
      .clip_grad_norm = {plan, clip_grad_norm},
  };
}

}  // namespace bytetape::cpu
