#include <cmath>
#include <limits>
#include <type_traits>

#include "bytetape/core/cpu/table.h"
#include "bytetape/core/cpu/whole_vectors.h"
#include "bytetape/core/kernels/elementwise_loss.h"

namespace bytetape::cpu {
namespace {

/// Computes y = f(x, t) elementwise. f takes single numbers.
template <class F>
void of_pair(const F& f, const ConstView& x, const ConstView& t, const View& y) {
  exact(f, y, x, t);
}
/// Computes gx = slope(x - t) gy elementwise.
template <class F>
void slope_of_pair(const F& slope, const ConstView& x, const ConstView& t, const ConstView& gy, const View& gx) {
  visit_floating(gx.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T, T, T>([&](const auto& x, const auto& t, const auto& gy) { return (x - t).unaryExpr(slope) * gy; },
                            gx, x, t, gy);
  });
}

void mse_loss(const ConstView& x, const ConstView& t, const View& y) {
  of_pair([](auto x, auto t) { return (x - t) * (x - t); }, x, t, y);
}
void mse_loss_backward(const ConstView& x, const ConstView& t, const ConstView& gy, const View& gx) {
  slope_of_pair([](auto d) { return 2 * d; }, x, t, gy, gx);
}

void l1_loss(const ConstView& x, const ConstView& t, const View& y) {
  of_pair([](auto x, auto t) { return std::abs(x - t); }, x, t, y);
}
void l1_loss_backward(const ConstView& x, const ConstView& t, const ConstView& gy, const View& gx) {
  slope_of_pair([](auto d) { return d > 0 ? decltype(d)(1) : d < 0 ? decltype(d)(-1) : d; }, x, t, gy, gx);
}

void huber_loss(double delta, const ConstView& x, const ConstView& t, const View& y) {
  const auto loss = [delta](auto x, auto t) {
    using C = decltype(x);
    const C most = static_cast<C>(delta), distance = std::abs(x - t);
    return distance > most ? most * (distance - most / 2) : distance * distance / 2;
  };
  of_pair(loss, x, t, y);
}
void huber_loss_backward(double delta, const ConstView& x, const ConstView& t, const ConstView& gy, const View& gx) {
  const auto slope = [delta](auto d) {
    const auto most = static_cast<decltype(d)>(delta);
    return d > most ? most : d < -most ? -most : d;
  };
  slope_of_pair(slope, x, t, gy, gx);
}

// Uses log(1 + exp(-x)) = log1p(exp(-|x|)) + max(-x, 0), which cannot overflow.
void bce_with_logits(const ConstView& x, const ConstView& t, const ConstView& p, const View& y) {
  smooth(
      [](auto& y, const auto& x, const auto& t, const auto& p) {
        y = (-x.abs()).exp();
        y = y.log1p() + (x < 0).select(-x, 0);
        y = (1 - t) * x + (1 + (p - 1) * t) * y;
      },
      y, x, t, p);
}
void bce_with_logits_backward(const ConstView& x, const ConstView& t, const ConstView& p, const ConstView& gy,
                              const View& gx) {
  smooth(
      [](auto& gx, const auto& x, const auto& t, const auto& p, const auto& gy) {
        gx = 1 / (1 + (-x).exp());
        gx = gy * ((1 + (p - 1) * t) * gx - p * t);
      },
      gx, x, t, p, gy);
}

void kl_div(const ConstView& x, const ConstView& t, const View& y) {
  smooth(
      [](auto& y, const auto& x, const auto& t) {
        y = t.log();
        y = (t == 0).select(0, t * (y - x));
      },
      y, x, t);
}
void kl_div_log(const ConstView& x, const ConstView& t, const View& y) {
  smooth(
      [](auto& y, const auto& x, const auto& t) {
        using C = typename std::decay_t<decltype(y)>::Scalar;
        // Eigen's exp returns the smallest normal number instead of smaller results, so exp(-inf) would not be 0.
        const C least = -std::log(std::numeric_limits<C>::max());
        y = t.exp();
        y = (t < least).select(C(0), y) * (t - x);
      },
      y, x, t);
}

}  // namespace

const ElementwiseLossKernels& elementwise_loss_kernels() {
  static const ElementwiseLossKernels all{
      .mse_loss = mse_loss,
      .l1_loss = l1_loss,
      .huber_loss = huber_loss,
      .bce_with_logits = bce_with_logits,
      .kl_div = kl_div,
      .kl_div_log = kl_div_log,
      .mse_loss_backward = mse_loss_backward,
      .l1_loss_backward = l1_loss_backward,
      .huber_loss_backward = huber_loss_backward,
      .bce_with_logits_backward = bce_with_logits_backward,
  };
  return all;
}

}  // namespace bytetape::cpu
