#include "bytetape/autograd/ops/images/conv_transpose.h"

#include <algorithm>
#include <limits>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/activation.h"
#include "bytetape/autograd/ops/concat.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/images/conv.h"
#include "bytetape/autograd/ops/images/conv_maps.h"
#include "bytetape/core/images/image_format.h"
#include "bytetape/core/kernels/arithmetic.h"
#include "bytetape/core/kernels/conv.h"

namespace bytetape {

using enum AttributeType;

namespace {

using namespace conv_maps;

struct ConvTranspose2dBackward final : Node {
  Saved x{this}, weight{this};
  WeightLayout w_layout;
  Conv2dParams params;
  DType weight_dtype = DType::f32, bias_dtype = DType::f32;

  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor g =
        channels_last(activation_and_bias_grad(Activation::none, x, gy[0], gx, Channels::channel_dim, bias_dtype));
    if (gx.needs(0)) gx[0] = conv2d(g, autocast_copy_again(weight.get(), g.dtype()), {}, params);
    if (!gx.needs(1)) return;
    const Tensor image = x.get();
    gx[1] = weight_grad(g, image, w_layout, weight_grad_dtype(g, image, w_layout, weight_dtype, params, gx), params);
  }
};

/// Checks the arguments of conv_transpose2d, and returns the shape of the result.
Shape output_shape(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvTranspose2dParams& p,
                   const Conv2dParams& conv) {
  check_image_and_weight(x, weight, "(c, o / groups, kh, kw)");
  check_params(conv);
  for (int i = 0; i < 2; ++i)
    check<ValueError>(p.output_padding[i] >= 0 && p.output_padding[i] < std::max(p.stride[i], p.dilation[i]),
                      "output_padding must be smaller than stride or dilation, and not negative, got ",
                      p.output_padding, " with stride ", p.stride, " and dilation ", p.dilation);
  check(weight.size(0) % p.groups == 0, p.groups, " groups do not divide the ", weight.size(0),
        " channels that weight ", describe(weight), " takes");
  check(x.size(1) == weight.size(0), "expected ", weight.size(0), " channels for weight ", describe(weight), ", got ",
        x.size(1), " in ", describe(x));
  Shape y{x.size(0), weight.size(1) * p.groups, 0, 0};
  check_bias(bias, x, weight, y[1]);
  for (int i = 0; i < 2; ++i) {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();  // keeps products far from overflow
    check(x.size(2 + i) <= most && weight.size(2 + i) <= most, describe(x), " or weight ", describe(weight),
          " is too large");
    y[2 + i] = (x.size(2 + i) - 1) * p.stride[i] - 2 * p.padding[i] + p.dilation[i] * (weight.size(2 + i) - 1) +
               p.output_padding[i] + 1;
    check(y[2 + i] >= 1, "padding ", p.padding, " leaves nothing of what weight ", describe(weight), " makes of ",
          describe(x));
  }
  return y;
}

/// Returns x with zeros appended, if output_padding is so large that the corresponding conv2d has more output rows or
/// columns than x.
Tensor extended(Tensor x, const ConvTranspose2dParams& p) {
  for (int i = 0; i < 2; ++i) {
    Shape more = x.shape();
    more[2 + i] = p.output_padding[i] / p.stride[i];
    if (more[2 + i] > 0) x = cat({x, zeros(more, x.dtype(), x.device())}, 2 + i);
  }
  return x;
}

void add_bias(const Tensor& bias, const Tensor& y) {
  const ConstView b = bias.read(),
                  channel_dim(b.data(), b.dtype, b.device, {1, b.shape[0], 1, 1}, {0, b.strides[0], 0, 0});
  run<&ArithmeticKernels::add>(y.device(), y.read(), channel_dim.expand(y.shape()), y.write());
}

}  // namespace

constexpr OpDefinition conv_transpose2d_op{.name = "conv_transpose2d",
                                           .inputs = {"x", "weight", "bias"},
                                           .attributes = {{"stride", integers},
                                                          {"padding", integers},
                                                          {"output_padding", integers},
                                                          {"dilation", integers},
                                                          {"groups", integer}},
                                           .family = Family::conv,
                                           .autocast = AutocastClass::low};
Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dParams& params) {
  const Op<conv_transpose2d_op> op(input, weight, bias, params.stride, params.padding, params.output_padding,
                                   params.dilation, params.groups);
  const AutocastWeight low_weight(weight), low_bias(bias);
  const Tensor x = op.input(input);
  const Conv2dParams conv{params.stride, params.padding, params.dilation, params.groups};
  const Shape y_shape = output_shape(x, low_weight.value, low_bias.value, params, conv);
  const Tensor image = channels_last(extended(x, params)), w = dense(low_weight.value);
  Tensor y = empty(y_shape, image_format, x.dtype(), x.device());
  run_planned<&ConvKernels::conv2d_input_grad>(x.device(), {image.read(), w.read(), y.write(), conv});
  if (bias.defined()) add_bias(low_bias.value, y);
  if (auto* node = record<ConvTranspose2dBackward>(y, image, low_weight.on_tape, low_bias.on_tape)) {
    if (node->needs(1)) node->x.save(image);
    if (node->needs(0)) node->weight.save(low_weight.on_tape);
    node->w_layout = layout_of(w);
    node->params = conv;
    node->weight_dtype = low_weight.on_tape.dtype();
    if (bias.defined()) node->bias_dtype = low_bias.on_tape.dtype();
  }
  return y;
}

}  // namespace bytetape
