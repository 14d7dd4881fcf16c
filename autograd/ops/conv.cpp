#include "bytetape/autograd/ops/conv.h"

#include <algorithm>
#include <limits>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/activation.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/elementwise.h"
#include "bytetape/core/image_format.h"

namespace bytetape {
namespace {

/// How a weight lies, and with it its gradient.
struct WeightLayout {
  Shape shape;
  Strides strides;
};
WeightLayout layout_of(const Tensor& weight) { return {weight.shape(), weight.strides()}; }
/// The weight as kernels take it: in its own order of dims where it has no gaps.
Tensor dense(const Tensor& weight) { return is_dense(weight.shape(), weight.strides()) ? weight : contiguous(weight); }

// y = conv(x, w) is linear in x and in w, and so are its gradients: the three maps below are one trilinear form seen
// from three sides, and the backward of each is the other two.
Tensor input_grad(const Tensor& gy, const Tensor& weight, const Shape& x_shape, const Conv2dParams& params);
Tensor weight_grad(const Tensor& x, const Tensor& gy, const WeightLayout& weight, DType dtype,
                   const Conv2dParams& params);

struct WeightAndBiasGrad {
  Tensor weight, bias;
};

/// One kernel for both, in `dtype`. x and gy are channels-last; with an activation gy is what comes to its result.
WeightAndBiasGrad run_weight_grad(const Tensor& x, const Tensor& gy, const WeightLayout& weight, DType dtype,
                                  const Conv2dParams& params, bool with_bias, Activation activation = Activation::none,
                                  const elementwise::SavedAndResult& y = {}) {
  const Device device = x.device();
  WeightAndBiasGrad g{empty_strided(weight.shape, weight.strides, dtype, device), {}};
  if (with_bias) g.bias = empty({weight.shape[0]}, dtype, device);
  run_planned<&Kernels::conv2d_weight_grad>(device, {x.read(), gy.read(), g.weight.write(), write(g.bias), params,
                                                     activation, read(y.saved), write(y.result)});
  return g;
}

struct Conv2dBackward final : Node {
  Saved x{this}, weight{this}, y{this};  // y where there is an activation
  Shape x_shape;
  WeightLayout w_layout;
  Conv2dParams params;
  Activation activation = Activation::none;
  DType weight_dtype = DType::f32, bias_dtype = DType::f32;

  void backward(const Grads& gy, InputGrads& gx) override {
    if (!gx.needs(0) && gx.needs(1) && gx.needs(2) && !grad_enabled()) return grads_of_parameters(gy[0], gx);
    const Tensor g = channels_last(activation_and_bias_grad(activation, y, gy[0], gx, Channels::of_image, bias_dtype));
    if (gx.needs(0)) gx[0] = input_grad(g, lowered_again(weight.get(), g.dtype()), x_shape, params);
    if (!gx.needs(1)) return;
    const Tensor image = x.get();
    gx[1] = weight_grad(image, g, w_layout, weight_grad_dtype(image, g, gx), params);
  }

 private:
  /// 16 bits where f32 would take the kernel a pass more, and backward widens what all leaves get at once.
  DType weight_grad_dtype(const Tensor& image, const Tensor& gy, const InputGrads& gx) const {
    const auto widens = backend(gy.device()).kernels->widens_weight_grad;
    if (!widens || weight_dtype == gy.dtype() || !gx.may_stay_low(1)) return weight_dtype;
    const View gw(nullptr, weight_dtype, gy.device(), w_layout.shape, w_layout.strides);
    return widens({image.read(), gy.read(), gw, {}, params}) ? gy.dtype() : weight_dtype;
  }
  /// Where nothing else is made of gy one kernel reads it, which sees to the activation on the way.
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

struct InputGradBackward final : Node {
  Saved gy{this}, weight{this};
  WeightLayout w_layout;
  Conv2dParams params;
  void backward(const Grads& ggx, InputGrads& g) override {
    if (g.needs(0)) g[0] = conv2d(ggx[0], weight.get(), {}, params);
    if (g.needs(1)) g[1] = weight_grad(ggx[0], gy.get(), w_layout, ggx[0].dtype(), params);
  }
};

struct WeightGradBackward final : Node {
  Saved x{this}, gy{this};
  Shape x_shape;
  Conv2dParams params;
  DType dtype = DType::f32;  // of both
  void backward(const Grads& ggw, InputGrads& g) override {
    if (g.needs(0)) g[0] = input_grad(gy.get(), to(ggw[0], dtype), x_shape, params);
    if (g.needs(1)) g[1] = conv2d(x.get(), to(ggw[0], dtype), {}, params);
  }
};

Tensor input_grad(const Tensor& gy, const Tensor& weight, const Shape& x_shape, const Conv2dParams& params) {
  const Op<"conv2d_input_grad"> op;
  const Tensor g = channels_last(gy), w = dense(weight);
  Tensor gx = empty(x_shape, image_format, g.dtype(), g.device());
  run_planned<&Kernels::conv2d_input_grad>(g.device(), {g.read(), w.read(), gx.write(), params});
  if (auto* node = record<InputGradBackward>(gx, g, w)) {
    if (node->needs(1)) node->gy.save(g);
    if (node->needs(0)) node->weight.save(w);
    node->w_layout = layout_of(w);
    node->params = params;
  }
  return gx;
}

Tensor weight_grad(const Tensor& x, const Tensor& gy, const WeightLayout& weight, DType dtype,
                   const Conv2dParams& params) {
  const Op<"conv2d_weight_grad"> op;
  const Tensor image = channels_last(x), g = channels_last(gy);
  Tensor gw = run_weight_grad(image, g, weight, dtype, params, false).weight;
  if (auto* node = record<WeightGradBackward>(gw, image, g)) {
    if (node->needs(1)) node->x.save(image);
    if (node->needs(0)) node->gy.save(g);
    node->x_shape = x.shape();
    node->params = params;
    node->dtype = x.dtype();
  }
  return gw;
}

void check_params(const Conv2dParams& p) {
  for (int i = 0; i < 2; ++i) {
    check<ValueError>(p.stride[i] >= 1 && p.dilation[i] >= 1, "stride and dilation must be at least 1, got stride ",
                      p.stride, " and dilation ", p.dilation);
    check<ValueError>(p.padding[i] >= 0, "padding must not be negative, got ", p.padding);
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();  // of libraries, and far from overflow
    check<ValueError>(std::max({p.stride[i], p.dilation[i], p.padding[i]}) <= most, "stride ", p.stride, ", dilation ",
                      p.dilation, " and padding ", p.padding, " must be below 2^31");
  }
  check<ValueError>(p.groups >= 1, "groups must be at least 1, got ", p.groups);
}

/// Checks all that conv2d is given; the shape of its result.
Shape output_shape(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dParams& p) {
  check_same_type(x, weight);
  check_floating(x);
  check_params(p);
  check(x.rank() == 4 && weight.rank() == 4, "expected x (n, c, h, w) and a weight (o, c / groups, kh, kw), got ",
        describe(x), " and ", describe(weight));
  for (int i = 0; i < 4; ++i)
    check((i == 0 || x.size(i) > 0) && weight.size(i) > 0, "only the batch can be empty, got ", describe(x),
          " and weight ", describe(weight));
  check(weight.size(0) % p.groups == 0, p.groups, " groups do not divide the ", weight.size(0),
        " channels that weight ", describe(weight), " makes");
  check(x.size(1) == weight.size(1) * p.groups, "expected ", weight.size(1) * p.groups, " channels for weight ",
        describe(weight), " in ", p.groups, p.groups == 1 ? " group" : " groups", ", got ", x.size(1), " in ",
        describe(x));
  if (bias.defined()) {
    check_same_type(x, bias);
    check(bias.shape() == Shape{weight.size(0)}, "expected a bias (", weight.size(0), ",), got ", describe(bias),
          " for weight ", describe(weight));
  }
  Shape y{x.size(0), weight.size(0), 0, 0};
  for (int i = 0; i < 2; ++i) {
    const std::int64_t room = x.size(2 + i) + 2 * p.padding[i] - p.dilation[i] * (weight.size(2 + i) - 1) - 1;
    check(room >= 0, "the kernel of ", describe(weight), " with dilation ", p.dilation, " is larger than ", describe(x),
          " with padding ", p.padding);
    y[2 + i] = room / p.stride[i] + 1;
  }
  return y;
}

}  // namespace

Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, const Conv2dParams& params,
              Activation activation) {
  const Op<"conv2d"> op;
  check_none_or_relu(activation);
  const LoweredWeight low_weight(weight), low_bias(bias);
  const Tensor x = lowered(input);
  const Shape y_shape = output_shape(x, low_weight.value, low_bias.value, params);
  const Tensor image = channels_last(x), w = dense(low_weight.value),
               b = bias.defined() ? contiguous(low_bias.value) : bias;
  Tensor y = empty(y_shape, image_format, x.dtype(), x.device());
  run_planned<&Kernels::conv2d>(x.device(), {image.read(), w.read(), read(b), y.write(), params, activation});
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

}  // namespace bytetape
