#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "bytetape/core/random.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// Geometry of a 2-d convolution, (height, width) each.
struct Conv2dParams {
  std::int64_t stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
  std::int64_t groups = 1;
  friend bool operator==(const Conv2dParams&, const Conv2dParams&) = default;
};

/// Geometry of a 2-d pooling window, (height, width) each.
struct Pool2dParams {
  std::int64_t kernel[2] = {2, 2}, stride[2] = {2, 2}, padding[2] = {0, 0};
};

/// One parameter of an SGD step (torch.optim.SGD): momentum_buffer is undefined where momentum is 0.
struct SgdSlot {
  View parameter;
  ConstView gradient;
  View momentum_buffer;
  bool first_step;  // the buffer holds nothing yet and becomes the gradient
};
struct SgdParams {
  double lr, momentum, dampening, weight_decay;
  bool nesterov;
};

/// One parameter of an Adam step (torch.optim.Adam, AdamW with `decoupled`).
struct AdamSlot {
  View parameter;
  ConstView gradient;
  View exp_avg, exp_avg_sq;
  std::int64_t step;  // from 1
};
struct AdamParams {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled;
};

/// What a device can do: plain functions on views. Shapes, dtypes and devices were checked by the op; a null entry is
/// reported as not implemented. Kernels never allocate: scratch comes as a Workspace of the size that `*_workspace`
/// tells.
///
/// Names: x inputs, y outputs, g gradients (gy of y, gx of x). Elementwise inputs are already broadcast to y's shape.
/// Unless a line says otherwise every view may have any strides, and floats are accumulated in at least f32.
struct Kernels {
  // ---- filling and copying
  void (*fill)(Scalar value, View y);
  void (*copy)(ConstView x, View y);  // converts the dtype; same shape
  void (*arange)(Scalar start, Scalar step, View y);

  // ---- random (core/random.h)
  void (*uniform)(PhiloxState state, double low, double high, View y);
  void (*normal)(PhiloxState state, double mean, double std, View y);  // Box-Muller, in double
  void (*randint)(PhiloxState state, std::int64_t low, std::int64_t high, View y);
  std::size_t (*randperm_workspace)(View y);
  void (*randperm)(PhiloxState state, View y, Workspace ws);  // order of 64-bit keys, ties by index
  void (*dropout)(PhiloxState state, double p, ConstView x,
                  View y);  // y = keep ? x / (1 - p) : 0; row-major element order

  // ---- elementwise, one input
  void (*exp)(ConstView x, View y);
  void (*log)(ConstView x, View y);
  void (*sqrt)(ConstView x, View y);
  void (*rsqrt)(ConstView x, View y);
  void (*tanh)(ConstView x, View y);
  void (*sigmoid)(ConstView x, View y);
  void (*relu)(ConstView x, View y);
  void (*erf)(ConstView x, View y);
  void (*gelu)(ConstView x, View y);  // exact: x * Phi(x)
  void (*abs)(ConstView x, View y);
  void (*neg)(ConstView x, View y);
  void (*sign)(ConstView x, View y);
  void (*clamp)(Scalar low, Scalar high, ConstView x, View y);  // NaN stays NaN
  void (*tanh_backward)(ConstView y, ConstView gy, View gx);
  void (*sigmoid_backward)(ConstView y, ConstView gy, View gx);
  void (*relu_backward)(ConstView y, ConstView gy, View gx);
  void (*gelu_backward)(ConstView x, ConstView gy, View gx);

  // ---- elementwise, two inputs; comparisons write bool
  void (*add)(ConstView a, ConstView b, View y);
  void (*sub)(ConstView a, ConstView b, View y);
  void (*mul)(ConstView a, ConstView b, View y);
  void (*div)(ConstView a, ConstView b, View y);  // integers truncate; by zero gives 0
  void (*pow)(ConstView a, ConstView b, View y);
  void (*eq)(ConstView a, ConstView b, View y);
  void (*ne)(ConstView a, ConstView b, View y);
  void (*lt)(ConstView a, ConstView b, View y);
  void (*le)(ConstView a, ConstView b, View y);
  void (*gt)(ConstView a, ConstView b, View y);
  void (*ge)(ConstView a, ConstView b, View y);
  void (*where)(ConstView condition, ConstView a, ConstView b, View y);

  // ---- reductions; y has x's rank, with 1 in every reduced dim
  void (*sum)(ConstView x, View y);  // y has x's dtype, or f32 for 16-bit floats; i64 for integers and bool
  void (*max)(ConstView x, View y);  // NaN wins
  void (*min)(ConstView x, View y);
  void (*argmax)(ConstView x, int dim, View y);  // y i64; first of equals; NaN wins

  // ---- softmax along dim
  void (*softmax)(ConstView x, int dim, View y);
  void (*log_softmax)(ConstView x, int dim, View y);
  void (*softmax_backward)(ConstView y, ConstView gy, int dim, View gx);
  void (*log_softmax_backward)(ConstView y, ConstView gy, int dim, View gx);

  // ---- linear algebra: y (b, m, n) = a (b, m, k) @ b (b, k, n) + bias; bias may be undefined, else broadcast to y
  std::size_t (*matmul_workspace)(ConstView a, ConstView b, ConstView bias, View y);
  void (*matmul)(ConstView a, ConstView b, ConstView bias, View y, Workspace ws);

  // ---- convolution: x (n, c, h, w), weight (o, c / groups, kh, kw), bias (o) or undefined, y (n, o, h', w').
  // x, y and their gradients are dense, channels-last or row-major; weight, bias and theirs are row-major.
  std::size_t (*conv2d_workspace)(ConstView x, ConstView weight, ConstView bias, View y, const Conv2dParams& p);
  void (*conv2d)(ConstView x, ConstView weight, ConstView bias, View y, const Conv2dParams& p, Workspace ws);
  std::size_t (*conv2d_input_grad_workspace)(ConstView gy, ConstView weight, View gx, const Conv2dParams& p);
  void (*conv2d_input_grad)(ConstView gy, ConstView weight, View gx, const Conv2dParams& p, Workspace ws);
  std::size_t (*conv2d_weight_grad_workspace)(ConstView x, ConstView gy, View gw, View gb, const Conv2dParams& p);
  void (*conv2d_weight_grad)(ConstView x, ConstView gy, View gw, View gb, const Conv2dParams& p, Workspace ws);

  // ---- pooling; indices (u8 or i32) count within the window, row-major; undefined: not kept
  void (*max_pool2d)(ConstView x, const Pool2dParams& p, View y, View indices);  // NaN wins
  void (*max_pool2d_backward)(ConstView gy, ConstView indices, const Pool2dParams& p, View gx);
  void (*max_pool2d_gather)(ConstView x, ConstView indices, const Pool2dParams& p, View y);  // y = x[indices]

  // ---- batch normalisation over (n, h, w) of x (n, c, h, w); weight and bias (c) or undefined; mean and the biased
  // variance (c). These may have x's dtype or the one that x is accumulated in.
  std::size_t (*batch_norm_workspace)(ConstView x);
  void (*batch_norm_statistics)(ConstView x, View mean, View var, Workspace ws);
  void (*batch_norm_apply)(ConstView x, ConstView weight, ConstView bias, ConstView mean, ConstView var, double eps,
                           View y);
  // training: mean and var depend on x. gx, gw and gb may be undefined.
  void (*batch_norm_backward)(ConstView x, ConstView weight, ConstView mean, ConstView var, ConstView gy, double eps,
                              bool training, View gx, View gw, View gb, Workspace ws);

  // ---- losses: logits (n, c), target i64 (n). Rows whose target is `ignore` count as 0. Out-of-range targets were
  // checked.
  void (*cross_entropy)(ConstView logits, ConstView target, std::int64_t ignore, double smoothing, View losses,
                        View lse);
  // gx = (softmax - smoothed one-hot) * gy, with gy (n)
  void (*cross_entropy_backward)(ConstView logits, ConstView target, ConstView lse, ConstView gy, std::int64_t ignore,
                                 double smoothing, View gx);
  // smallest and largest value of an i64 tensor, and how many differ from `ignore`: y i64 (3), ignored ones left out
  void (*target_range)(ConstView target, std::int64_t ignore, View y);

  // ---- optimizers: every parameter in one call; the views of a slot are dense and have the same strides and dtype
  void (*sgd)(std::span<const SgdSlot> slots, const SgdParams& p);
  void (*adam)(std::span<const AdamSlot> slots, const AdamParams& p);
};

}  // namespace bytetape
