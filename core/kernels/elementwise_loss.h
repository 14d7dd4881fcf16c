#pragma once
#include "bytetape/core/view.h"

namespace bytetape {

/// The loss of each x and its target t, floating-point. Backward kernels compute gx only.
struct ElementwiseLossKernels {
  void (*mse_loss)(const ConstView& x, const ConstView& t, const View& y);  // (x - t)^2
  void (*l1_loss)(const ConstView& x, const ConstView& t, const View& y);   // |x - t|
  // (x - t)^2 / 2 for |x - t| <= delta, else linear
  void (*huber_loss)(double delta, const ConstView& x, const ConstView& t, const View& y);
  // (1 - t) x + (1 + (p - 1) t) log(1 + exp(-x)), where p is pos_weight
  void (*bce_with_logits)(const ConstView& x, const ConstView& t, const ConstView& p, const View& y);
  void (*kl_div)(const ConstView& x, const ConstView& t, const View& y);      // t (log(t) - x), and 0 for t = 0
  void (*kl_div_log)(const ConstView& x, const ConstView& t, const View& y);  // exp(t) (t - x)

  void (*mse_loss_backward)(const ConstView& x, const ConstView& t, const ConstView& gy, const View& gx);
  void (*l1_loss_backward)(const ConstView& x, const ConstView& t, const ConstView& gy, const View& gx);
  void (*huber_loss_backward)(double delta, const ConstView& x, const ConstView& t, const ConstView& gy,
                              const View& gx);
  void (*bce_with_logits_backward)(const ConstView& x, const ConstView& t, const ConstView& p, const ConstView& gy,
                                   const View& gx);
};

}  // namespace bytetape
