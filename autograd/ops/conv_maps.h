#pragma once
/// \file
/// What convolutions are made of; not ops themselves. y = conv(x, w) is linear in x and in w, and so are its gradients:
/// conv2d, input_grad and weight_grad are one trilinear form seen from three sides, and the backward of each is the
/// other two. conv_transpose2d is input_grad with a bias.
#include "bytetape/autograd/node.h"
#include "bytetape/autograd/ops/elementwise.h"
#include "bytetape/core/kernels/conv.h"

namespace bytetape::conv_maps {

/// ValueError where stride, padding, dilation or groups are out of range.
void check_params(const Conv2dParams& p);
/// x (n, c, h, w) and a weight of four dims: floating, of one dtype and device, no dim but the batch empty. `shape`
/// says what is expected.
void check_image_and_weight(const Tensor& x, const Tensor& weight, const char* shape);
/// Undefined, or (channels) and of x's type.
void check_bias(const Tensor& bias, const Tensor& x, const Tensor& weight, std::int64_t channels);

/// How a weight lies, and with it its gradient.
struct WeightLayout {
  Shape shape;
  Strides strides;
};
inline WeightLayout layout_of(const Tensor& weight) { return {weight.shape(), weight.strides()}; }
/// The weight as kernels take it: in its own order of dims where it has no gaps.
Tensor dense(const Tensor& weight);

/// x's gradient, of x_shape and channels-last.
Tensor input_grad(const Tensor& gy, const Tensor& weight, const Shape& x_shape, const Conv2dParams& params);
/// The weight's, in `dtype`.
Tensor weight_grad(const Tensor& x, const Tensor& gy, const WeightLayout& weight, DType dtype,
                   const Conv2dParams& params);

struct WeightAndBiasGrad {
  Tensor weight, bias;
};
/// One kernel for both, in `dtype`, which nothing records. x and gy are channels-last; with an activation gy is what
/// comes to its result.
WeightAndBiasGrad run_weight_grad(const Tensor& x, const Tensor& gy, const WeightLayout& weight, DType dtype,
                                  const Conv2dParams& params, bool with_bias, Activation activation = Activation::none,
                                  const elementwise::SavedAndResult& y = {});

/// The dtype of the weight's gradient, which is gx[1]: `dtype`, or 16 bits where f32 would take the kernel a pass more,
/// and backward widens what all leaves get at once.
DType weight_grad_dtype(const Tensor& x, const Tensor& gy, const WeightLayout& weight, DType dtype,
                        const Conv2dParams& params, const InputGrads& gx);

}  // namespace bytetape::conv_maps
