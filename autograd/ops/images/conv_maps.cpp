#include "bytetape/autograd/ops/images/conv_maps.h"

#include <algorithm>
#include <limits>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/images/conv.h"
#include "bytetape/core/images/image_format.h"
#include "bytetape/core/kernels/conv.h"

namespace bytetape::conv_maps {

using enum AttributeType;
namespace {

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
  DType dtype = DType::f32;  // of x and weight
  void backward(const Grads& ggw, InputGrads& g) override {
    if (g.needs(0)) g[0] = input_grad(gy.get(), to(ggw[0], dtype), x_shape, params);
    if (g.needs(1)) g[1] = conv2d(x.get(), to(ggw[0], dtype), {}, params);
  }
};

}  // namespace

void check_params(const Conv2dParams& p) {
  for (int i = 0; i < 2; ++i) {
    check<ValueError>(p.stride[i] >= 1 && p.dilation[i] >= 1, "stride and dilation must be at least 1, got stride ",
                      p.stride, " and dilation ", p.dilation);
    check<ValueError>(p.padding[i] >= 0, "padding must not be negative, got ", p.padding);
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();  // library limit, far from overflow
    check<ValueError>(std::max({p.stride[i], p.dilation[i], p.padding[i]}) <= most, "stride ", p.stride, ", dilation ",
                      p.dilation, " and padding ", p.padding, " must be below 2^31");
  }
  check<ValueError>(p.groups >= 1, "groups must be at least 1, got ", p.groups);
}

void check_image_and_weight(const Tensor& x, const Tensor& weight, const char* shape) {
  check_same_type(x, weight);
  check_floating(x);
  check(x.rank() == 4 && weight.rank() == 4, "expected x (n, c, h, w) and a weight ", shape, ", got ", describe(x),
        " and ", describe(weight));
  for (int i = 0; i < 4; ++i)
    check((i == 0 || x.size(i) > 0) && weight.size(i) > 0, "expected no dim of size 0 except the batch of x, got ",
          describe(x), " and weight ", describe(weight));
}

void check_bias(const Tensor& bias, const Tensor& x, const Tensor& weight, std::int64_t channels) {
  if (!bias.defined()) return;
  check_same_type(x, bias);
  check(bias.shape() == Shape{channels}, "expected a bias (", channels, ",), got ", describe(bias), " for weight ",
        describe(weight));
}

Tensor dense(const Tensor& weight) { return is_dense(weight.shape(), weight.strides()) ? weight : contiguous(weight); }

constexpr OpDefinition input_grad_op{.name = "conv2d_input_grad",
                                     .inputs = {"gy", "weight"},
                                     .outputs = {"gx"},
                                     .attributes = {{"x_shape", integers}},
                                     .family = Family::conv};
Tensor input_grad(const Tensor& gy, const Tensor& weight, const Shape& x_shape, const Conv2dParams& params) {
  const Op<input_grad_op> op(gy, weight, x_shape);
  const Tensor g = channels_last(gy), w = dense(weight);
  Tensor gx = empty(x_shape, image_format, g.dtype(), g.device());
  run_planned<&ConvKernels::conv2d_input_grad>(g.device(), {g.read(), w.read(), gx.write(), params});
  if (auto* node = record<InputGradBackward>(gx, g, w)) {
    if (node->needs(1)) node->gy.save(g);
    if (node->needs(0)) node->weight.save(w);
    node->w_layout = layout_of(w);
    node->params = params;
  }
  return gx;
}

constexpr OpDefinition weight_grad_op{
    .name = "conv2d_weight_grad", .inputs = {"x", "gy"}, .outputs = {"gw"}, .family = Family::conv};
Tensor weight_grad(const Tensor& x, const Tensor& gy, const WeightLayout& weight, DType dtype,
                   const Conv2dParams& params) {
  const Op<weight_grad_op> op(x, gy);
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

WeightAndBiasGrad run_weight_grad(const Tensor& x, const Tensor& gy, const WeightLayout& weight, DType dtype,
                                  const Conv2dParams& params, bool with_bias, Activation activation,
                                  const elementwise::SavedAndResult& y) {
  const Device device = x.device();
  WeightAndBiasGrad g{empty_strided(weight.shape, weight.strides, dtype, device), {}};
  if (with_bias) g.bias = empty({weight.shape[0]}, dtype, device);
  run_planned<&ConvKernels::conv2d_weight_grad>(device, {x.read(), gy.read(), g.weight.write(), write(g.bias), params,
                                                         activation, read(y.saved), write(y.result)});
  return g;
}

DType weight_grad_dtype(const Tensor& x, const Tensor& gy, const WeightLayout& weight, DType dtype,
                        const Conv2dParams& params, const InputGrads& gx) {
  const auto widens = backend(gy.device()).kernels->find(&ConvKernels::widens_weight_grad);
  if (!widens || dtype == gy.dtype() || !gx.may_stay_low(1)) return dtype;
  const View gw(nullptr, dtype, gy.device(), weight.shape, weight.strides);
  return widens({x.read(), gy.read(), gw, {}, params}) ? gy.dtype() : dtype;
}

}  // namespace bytetape::conv_maps
