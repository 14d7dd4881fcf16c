#pragma once
/// \file
/// The linear maps that convolutions consist of. They are not ops.
/// y = conv(x, w) is linear in x and in w, and so are its gradients. conv2d, input_grad and weight_grad derive from one
/// trilinear form, so the backward of each consists of the other two. conv_transpose2d is input_grad with a bias.
#include "bytetape/autograd/node.h"
#include "bytetape/autograd/ops/elementwise.h"
#include "bytetape/core/kernels/conv.h"

namespace bytetape::conv_maps {

/// Throws ValueError if stride, padding, dilation or groups is out of range.
void check_params(const Conv2dParams& p);
/// Checks x (n, c, h, w) and a weight of four dims: floating-point, one dtype and device, no empty dim but the batch.
/// `shape` is the expected shape in error messages.
void check_image_and_weight(const Tensor& x, const Tensor& weight, const char* shape);
/// Checks that the bias is undefined, or of shape (channels) and x's dtype and device.
void check_bias(const Tensor& bias, const Tensor& x, const Tensor& weight, std::int64_t channels);

/// Shape and strides of a weight and its gradient.
struct WeightLayout {
  Shape shape;
  Strides strides;
};
inline WeightLayout layout_of(const Tensor& weight) { return {weight.shape(), weight.strides()}; }
/// Returns the weight for a kernel: itself if it is dense in any order of dims, else a dense copy.
Tensor dense(const Tensor& weight);

/// Returns x's gradient, of x_shape and channels-last.
Tensor input_grad(const Tensor& gy, const Tensor& weight, const Shape& x_shape, const Conv2dParams& params);
/// Returns the weight's gradient, in `dtype`.
Tensor weight_grad(const Tensor& x, const Tensor& gy, const WeightLayout& weight, DType dtype,
                   const Conv2dParams& params);

struct WeightAndBiasGrad {
  Tensor weight, bias;
};
/// Computes both gradients in one kernel, in `dtype`, without recording. x and gy are channels-last.
/// With an activation, gy is the gradient of the activation's result `y`.
WeightAndBiasGrad run_weight_grad(const Tensor& x, const Tensor& gy, const WeightLayout& weight, DType dtype,
                                  const Conv2dParams& params, bool with_bias, Activation activation = Activation::none,
                                  const elementwise::SavedAndResult& y = {});

/// Returns the dtype for the weight's gradient gx[1]: `dtype`, or 16 bits if the kernel would need another pass for
/// f32. Backward then converts the gradients of all leaves at once.
DType weight_grad_dtype(const Tensor& x, const Tensor& gy, const WeightLayout& weight, DType dtype,
                        const Conv2dParams& params, const InputGrads& gx);

}  // namespace bytetape::conv_maps
