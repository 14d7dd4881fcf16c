#pragma once
#include "bytetape/core/activation.h"
#include "bytetape/core/kernels/planned.h"
#include "bytetape/core/view.h"

namespace bytetape {

/// y (b, m, n) = activation(a (b, m, k) @ b (b, k, n) + bias), which may be undefined and else is broadcast to y.
struct MatmulArgs {
  ConstView a, b, bias;
  View y;
  Activation activation = Activation::none;
};
/// gw (out, in) = gy^T @ x and gb (out), the column sums of gy, of row-major x (rows, in) and gy (rows, out). gb may be
/// undefined. Both may be f32 where x and gy have 16 bits.
struct LinearWeightGradArgs {
  ConstView x, gy;
  View gw, gb;
};

struct MatmulKernels {
  Planned<MatmulArgs> matmul;
  Planned<LinearWeightGradArgs> linear_weight_grad;
};

/// gb as what a sum over the rows of gy leaves.
inline View as_row(const View& gb) {
  return View(gb.data(), gb.dtype, gb.device, {1, gb.shape[0]}, {gb.shape[0], gb.strides[0]});
}
/// gw of these as a product.
inline MatmulArgs product_of(const LinearWeightGradArgs& args) {
  const auto transposed = [](ConstView v) {
    v.shape = {1, v.shape[1], v.shape[0]};
    v.strides = {0, v.strides[1], v.strides[0]};
    return v;
  };
  const auto one = [](auto v) {
    v.shape = {1, v.shape[0], v.shape[1]};
    v.strides = {0, v.strides[0], v.strides[1]};
    return v;
  };
  return {transposed(args.gy), one(args.x), {}, one(args.gw)};
}

}  // namespace bytetape
