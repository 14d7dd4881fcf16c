#pragma once
#include "bytetape/core/view.h"

namespace bytetape {

/// Losses of each x and its target t, floating; backward kernels give gx alone.
struct ElementwiseLossKernels {
  void (*mse_loss)(const ConstView& x, const ConstView& t, const View& y);  // (x - t)^2
  void (*l1_loss)(const ConstView& x, const ConstView& t, const View& y);   // |x - t|
  // (x - t)^2 / 2 up to |x - t| = delta, a line from there
  void (*huber_loss)(double delta, const ConstView& x, const ConstView& t, const View& y);
  // (1 - t) x + (1 + (p - 1) t) log(1 + exp(-x)), p being the weight of a target of 1
  void (*bce_with_logits)(const ConstView& x, const ConstView& t, const ConstView& p, const View& y);

  void (*mse_loss_backward)(const ConstView& x, const ConstView& t, const ConstView& gy, const View& gx);
  void (*l1_loss_backward)(const ConstView& x, const ConstView& t, const ConstView& gy, const View& gx);
  void (*huber_loss_backward)(double delta, const ConstView& x, const ConstView& t, const ConstView& gy,
                              const View& gx);
  void (*bce_with_logits_backward)(const ConstView& x, const ConstView& t, const ConstView& p, const ConstView& gy,
                                   const View& gx);
};

}  // namespace bytetape
