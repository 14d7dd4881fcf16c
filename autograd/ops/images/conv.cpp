#include "bytetape/autograd/ops/images/conv.h"

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/activation.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/images/conv_maps.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/images/image_format.h"
#include "bytetape/core/kernels/conv.h"

namespace bytetape {

using enum AttributeType;

namespace {

using namespace conv_maps;

struct Conv2dBackward final : Node {
  Saved x{this}, weight{this}, y{this};  // y is saved if there is an activation
  Shape x_shape;
  WeightLayout w_layout;
  Conv2dParams params;
  Activation activation = Activation::none;
  DType weight_dtype = DType::f32, bias_dtype = DType::f32;

  void backward(const Grads& gy, InputGrads& gx) override {
    if (!gx.needs(0) && gx.needs(1) && gx.needs(2) && !grad_enabled()) return grads_of_parameters(gy[0], gx);
    const Tensor g =
        channels_last(activation_and_bias_grad(activation, y, gy[0], gx, Channels::channel_dim, bias_dtype));
    if (gx.needs(0)) gx[0] = input_grad(g, autocast_copy_again(weight.get(), g.dtype()), x_shape, params);
    if (!gx.needs(1)) return;
    const Tensor image = x.get();
    gx[1] = weight_grad(image, g, w_layout, weight_grad_dtype(image, g, w_layout, weight_dtype, params, gx), params);
  }

 private:
  /// Computes the gradients of weight and bias with one kernel, which also applies the activation's gradient. Used if x
  /// needs no gradient and nothing is recorded.
  void grads_of_parameters(const Tensor& gy, InputGrads& gx) {
    const bool activates = activation != Activation::none && is_channels_last(gy.shape(), gy.strides());
    const WeightAndBiasGrad g = activates
                                    ? run_weight_grad(x.get(), gy, w_layout, weight_dtype, params, true, activation,
                                                      elementwise::result_over(y, gy, gx))
                                    : run_weight_grad(x.get(), channels_last(activation_grad(activation, y, gy, gx)),
                                                      w_layout, weight_dtype, params, true);
    gx[1] = g.weight;
    gx[2] = to(g.bias, bias_dtype);
  }
};

/// Checks the arguments of conv2d, and returns the shape of the result.
Shape output_shape(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dParams& p) {
  check_image_and_weight(x, weight, "(o, c / groups, kh, kw)");
  check_params(p);
  check(weight.size(0) % p.groups == 0, p.groups, " groups do not divide the ", weight.size(0),
        " channels that weight ", describe(weight), " makes");
  check(x.size(1) == weight.size(1) * p.groups, "expected ", weight.size(1) * p.groups, " channels for weight ",
        describe(weight), " in ", p.groups, p.groups == 1 ? " group" : " groups", ", got ", x.size(1), " in ",
        describe(x));
  check_bias(bias, x, weight, weight.size(0));
  Shape y{x.size(0), weight.size(0), 0, 0};
  for (int i = 0; i < 2; ++i) {
    const std::int64_t room = x.size(2 + i) + 2 * p.padding[i] - p.dilation[i] * (weight.size(2 + i) - 1) - 1;
    check(room >= 0, "the kernel of ", describe(weight), " with dilation ", p.dilation, " is larger than ", describe(x),
          " with padding ", p.padding);
    y[2 + i] = room / p.stride[i] + 1;
  }
  return y;
}

/// Convolves an image, for an op of the class `low` whose scope is open.
Tensor convolve(const Tensor& input, const Tensor& weight, const Tensor& bias, const Conv2dParams& params,
                Activation activation) {
  check_epilogue<ConvKernels>(activation);
  const AutocastWeight low_weight(weight), low_bias(bias);
  const Tensor x = autocast_copy(input);
  const Shape y_shape = output_shape(x, low_weight.value, low_bias.value, params);
  const Tensor image = channels_last(x), w = dense(low_weight.value),
               b = bias.defined() ? contiguous(low_bias.value) : bias;
  Tensor y = empty(y_shape, image_format, x.dtype(), x.device());
  run_planned<&ConvKernels::conv2d>(x.device(), {image.read(), w.read(), read(b), y.write(), params, activation});
  if (auto* node = record<Conv2dBackward>(y, image, low_weight.on_tape, low_bias.on_tape)) {
    if (node->needs(1)) node->x.save(image);
    if (node->needs(0)) node->weight.save(low_weight.on_tape);
    if (activation != Activation::none) node->y.save_output(y);
    node->x_shape = x.shape();
    node->w_layout = layout_of(w);
    node->params = params;
    node->activation = activation;
    node->weight_dtype = low_weight.on_tape.dtype();
    if (bias.defined()) node->bias_dtype = low_bias.on_tape.dtype();
  }
  return y;
}

}  // namespace

constexpr OpDefinition conv2d_op{.name = "conv2d",
                                 .inputs = {"x", "weight", "bias"},
                                 .attributes = {{"stride", integers},
                                                {"padding", integers},
                                                {"dilation", integers},
                                                {"groups", integer},
                                                {"activation", text}},
                                 .family = Family::conv,
                                 .autocast = AutocastClass::low};
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dParams& params,
              Activation activation) {
  const Op<conv2d_op> op(x, weight, bias, params.stride, params.padding, params.dilation, params.groups, activation);
  return op.result(convolve(x, weight, bias, params, activation));
}

constexpr OpDefinition conv1d_op{.name = "conv1d",
                                 .inputs = {"x", "weight", "bias"},
                                 .attributes = {{"stride", integer},
                                                {"padding", integer},
                                                {"dilation", integer},
                                                {"groups", integer},
                                                {"activation", text}},
                                 .family = Family::conv,
                                 .autocast = AutocastClass::low};
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1dParams& p, Activation activation) {
  const Op<conv1d_op> op(x, weight, bias, p.stride, p.padding, p.dilation, p.groups, activation);
  check_defined(x);
  check_defined(weight, "the weight");
  check(x.rank() == 3 && weight.rank() == 3, "expected x (n, c, l) and a weight (o, c / groups, k), got ", describe(x),
        " and ", describe(weight));
  const Conv2dParams params{{1, p.stride}, {0, p.padding}, {1, p.dilation}, p.groups};
  const Tensor y = convolve(unsqueeze(x, 2), unsqueeze(weight, 2), bias, params, activation);
  return op.result(squeeze(y, 2));
}

}  // namespace bytetape
