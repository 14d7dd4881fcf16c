#include "bytetape/core/cpu/onednn/plan.h"
#include "bytetape/core/cpu/table.h"

namespace bytetape::cpu::onednn {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using Tag = memory::format_tag;

constexpr auto f32 = memory::data_type::f32;

/// x, y and their gradients where they lie, weights in the layout that the primitive likes best.
struct Descs {
  memory::desc x, any_weight, weight, bias, y;
  memory::dims stride, dilation, padding;

  Descs(const ConstView& x, const ConstView& weight, const ConstView& y, const Conv2dParams& p)
      : x(image(x)),
        any_weight(dims_of(weight, p.groups), f32, Tag::any),
        weight(dims_of(weight, p.groups), f32, p.groups == 1 ? Tag::oihw : Tag::goihw),
        bias({y.shape[1]}, f32, Tag::a),
        y(image(y)),
        stride{p.stride.h, p.stride.w},
        dilation{p.dilation.h - 1, p.dilation.w - 1},
        padding{p.padding.h, p.padding.w} {}

  // Strides of dims of size 1 mean nothing, so one channel is both layouts: channels-last has the faster kernels.
  static memory::desc image(const ConstView& x) {
    const memory::dims shape(x.shape.begin(), x.shape.end());
    return {shape, f32, is_channels_last(x.shape, x.strides) ? Tag::nhwc : Tag::nchw};
  }
  static memory::dims dims_of(const ConstView& w, std::int64_t groups) {
    if (groups == 1) return {w.shape.begin(), w.shape.end()};
    return {groups, w.shape[0] / groups, w.shape[1], w.shape[2], w.shape[3]};
  }
  dnnl::convolution_forward::primitive_desc forward(bool with_bias) const {
    const auto kind = dnnl::prop_kind::forward_training;
    const auto how = algorithm::convolution_direct;
    if (with_bias)
      return describe<dnnl::convolution_forward>(kind, how, x, any_weight, bias, y, stride, dilation, padding, padding);
    return describe<dnnl::convolution_forward>(kind, how, x, any_weight, y, stride, dilation, padding, padding);
  }
};

Plan& find(Key::Kind kind, const ConstView& x, const ConstView& weight, const ConstView& y, const Conv2dParams& p,
           bool with_bias, Plan (*compile)(const Descs&, bool with_bias)) {
  Key key(kind);
  key.add(with_bias);
  key.add(x.shape);
  key.add(weight.shape);
  key.add(y.shape);
  key.add(is_channels_last(x.shape, x.strides));
  key.add(is_channels_last(y.shape, y.strides));
  for (const Size2 pair : {p.stride, p.padding, p.dilation})
    for (const std::int64_t v : {pair.h, pair.w}) key.add(v);
  key.add(p.groups);
  return cached_plan(key, [&] { return compile(Descs(x, weight, y, p), with_bias); });
}

Plan compile_forward(const Descs& d, bool with_bias) {
  const auto pd = d.forward(with_bias);
  Plan plan;
  const auto x = plan.argument(d.x), weight = plan.argument(d.weight);
  const auto reordered = plan.read_as(weight, pd.weights_desc());
  const dnnl::convolution_forward primitive(pd);
  if (with_bias) {
    const auto bias = plan.argument(d.bias), y = plan.argument(d.y);
    plan.step(pd, primitive,
              {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, reordered}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, y}});
  } else {
    plan.step(pd, primitive, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, reordered}, {DNNL_ARG_DST, plan.argument(d.y)}});
  }
  return plan;
}

Plan compile_input_grad(const Descs& d, bool) {
  const auto pd =
      describe_backward<dnnl::convolution_backward_data>(d.forward(false), algorithm::convolution_direct, d.x,
                                                         d.any_weight, d.y, d.stride, d.dilation, d.padding, d.padding);
  Plan plan;
  const auto gy = plan.argument(d.y), weight = plan.argument(d.weight), gx = plan.argument(d.x);
  const auto reordered = plan.read_as(weight, pd.weights_desc());
  plan.step(pd, dnnl::convolution_backward_data(pd),
            {{DNNL_ARG_DIFF_DST, gy}, {DNNL_ARG_WEIGHTS, reordered}, {DNNL_ARG_DIFF_SRC, gx}});
  return plan;
}

Plan compile_weight_grad(const Descs& d, bool with_bias) {
  using Primitive = dnnl::convolution_backward_weights;
  const auto how = algorithm::convolution_direct;
  const auto hint = d.forward(with_bias);
  const auto pd = with_bias ? describe_backward<Primitive>(hint, how, d.x, d.any_weight, d.bias, d.y, d.stride,
                                                           d.dilation, d.padding, d.padding)
                            : describe_backward<Primitive>(hint, how, d.x, d.any_weight, d.y, d.stride, d.dilation,
                                                           d.padding, d.padding);
  Plan plan;
  const auto x = plan.argument(d.x), gy = plan.argument(d.y), gw = plan.argument(d.weight);
  const auto direct = pd.diff_weights_desc() == d.weight ? gw : plan.scratch(pd.diff_weights_desc());
  if (with_bias)
    plan.step(pd, Primitive(pd),
              {{DNNL_ARG_SRC, x},
               {DNNL_ARG_DIFF_DST, gy},
               {DNNL_ARG_DIFF_WEIGHTS, direct},
               {DNNL_ARG_DIFF_BIAS, plan.argument(d.bias)}});
  else
    plan.step(pd, Primitive(pd), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, gy}, {DNNL_ARG_DIFF_WEIGHTS, direct}});
  if (direct != gw) plan.reorder(direct, gw);
  return plan;
}

Plan& forward_plan(const ConstView& x, const ConstView& weight, const ConstView& bias, const View& y,
                   const Conv2dParams& p) {
  return find(Key::Kind::conv2d, x, weight, y, p, bias.defined(), compile_forward);
}
Plan& input_grad_plan(const ConstView& gy, const ConstView& weight, const View& gx, const Conv2dParams& p) {
  return find(Key::Kind::conv2d_input_grad, gx, weight, gy, p, false, compile_input_grad);
}
Plan& weight_grad_plan(const ConstView& x, const ConstView& gy, const View& gw, const View& gb, const Conv2dParams& p) {
  return find(Key::Kind::conv2d_weight_grad, x, gw, gy, p, gb.defined(), compile_weight_grad);
}

const ConvKernels& portable_kernels() {
  static const ConvKernels table = portable::conv_kernels();
  return table;
}

bool is_fast(const ConstView& x) { return x.dtype == DType::f32 && x.numel() > 0; }

std::size_t conv2d_workspace(const ConstView& x, const ConstView& weight, const ConstView& bias, const View& y,
                             const Conv2dParams& p) {
  if (!is_fast(x)) return portable_kernels().conv2d_workspace(x, weight, bias, y, p);
  return forward_plan(x, weight, bias, y, p).workspace_bytes();
}

void conv2d(const ConstView& x, const ConstView& weight, const ConstView& bias, const View& y, const Conv2dParams& p,
            Workspace ws) {
  if (!is_fast(x)) return portable_kernels().conv2d(x, weight, bias, y, p, ws);
  Plan& plan = forward_plan(x, weight, bias, y, p);
  if (bias.defined())
    plan.run({x.data(), weight.data(), bias.data(), y.data()}, ws.data);
  else
    plan.run({x.data(), weight.data(), y.data()}, ws.data);
}

std::size_t conv2d_input_grad_workspace(const ConstView& gy, const ConstView& weight, const View& gx,
                                        const Conv2dParams& p) {
  if (!is_fast(gx)) return portable_kernels().conv2d_input_grad_workspace(gy, weight, gx, p);
  return input_grad_plan(gy, weight, gx, p).workspace_bytes();
}

void conv2d_input_grad(const ConstView& gy, const ConstView& weight, const View& gx, const Conv2dParams& p,
                       Workspace ws) {
  if (!is_fast(gx)) return portable_kernels().conv2d_input_grad(gy, weight, gx, p, ws);
  input_grad_plan(gy, weight, gx, p).run({gy.data(), weight.data(), gx.data()}, ws.data);
}

std::size_t conv2d_weight_grad_workspace(const ConstView& x, const ConstView& gy, const View& gw, const View& gb,
                                         const Conv2dParams& p) {
  if (!is_fast(x)) return portable_kernels().conv2d_weight_grad_workspace(x, gy, gw, gb, p);
  return weight_grad_plan(x, gy, gw, gb, p).workspace_bytes();
}

void conv2d_weight_grad(const ConstView& x, const ConstView& gy, const View& gw, const View& gb, const Conv2dParams& p,
                        Workspace ws) {
  if (!is_fast(x)) return portable_kernels().conv2d_weight_grad(x, gy, gw, gb, p, ws);
  Plan& plan = weight_grad_plan(x, gy, gw, gb, p);
  if (gb.defined())
    plan.run({x.data(), gy.data(), gw.data(), gb.data()}, ws.data);
  else
    plan.run({x.data(), gy.data(), gw.data()}, ws.data);
}

}  // namespace

ConvKernels conv_kernels() {
  return {
      .conv2d_workspace = conv2d_workspace,
      .conv2d = conv2d,
      .conv2d_input_grad_workspace = conv2d_input_grad_workspace,
      .conv2d_input_grad = conv2d_input_grad,
      .conv2d_weight_grad_workspace = conv2d_weight_grad_workspace,
      .conv2d_weight_grad = conv2d_weight_grad,
  };
}

}  // namespace bytetape::cpu::onednn
