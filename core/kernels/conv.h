#pragma once
#include <cstdint>

#include "bytetape/core/kernels/epilogue.h"
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/kernels/work.h"
#include "bytetape/core/size2.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// Geometry of a 2-d convolution.
struct Conv2dParams {
  Size2 stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;
  friend bool operator==(const Conv2dParams&, const Conv2dParams&) = default;
};

/// Each element of y is the sum of the products of a patch. Its gradients are as many.
inline memory::Work conv2d_flop(const ConstView& y, const ConstView& weight) {
  return product_work(y.dtype, y.numel() * (weight.shape[1] * weight.shape[2] * weight.shape[3]));
}

// x (n, c, h, w), weight (o, c / groups, kh, kw), bias (o) or undefined, y (n, o, h', w'). x, y and their gradients are
// dense, channels-last or row-major. The weight and its gradient are dense in any order of dims. bias and its gradient
// are row-major.
struct Conv2dArgs {
  ConstView x, weight, bias;
  View y;  // activation(convolution + bias)
  Conv2dParams params;
  Activation activation = Activation::none;

  memory::Work flop() const { return conv2d_flop(y, weight); }
};
struct Conv2dInputGradArgs {
  ConstView gy, weight;
  View gx;
  Conv2dParams params;

  memory::Work flop() const { return conv2d_flop(gy, weight); }
};
// With an activation, whose result is y, gw and gb use the gradient of the activation's input. A kernel may write that
// to `masked`, which has y's layout and may be gy. All three are dense.
struct Conv2dWeightGradArgs {
  ConstView x, gy;
  View gw, gb;  // gb may be undefined; both may be f32 if x and gy are 16-bit
  Conv2dParams params;
  Activation activation = Activation::none;
  ConstView y = {};  // undefined without an activation
  View masked = {};  // undefined without an activation

  memory::Work flop() const { return {conv2d_flop(gy, gw).flop, 0, x.dtype}; }
};

struct ConvKernels {
  static constexpr Epilogues epilogues{Activation::relu};

  Planned<Conv2dArgs> conv2d;
  Planned<Conv2dInputGradArgs> conv2d_input_grad;
  Planned<Conv2dWeightGradArgs> conv2d_weight_grad;
  /// Whether an f32 gw for 16-bit x and gy needs another pass that converts a 16-bit gw. Depends on geometry only. Null
  /// if it never does.
  bool (*widens_weight_grad)(const Conv2dWeightGradArgs& args);
};

}  // namespace bytetape
