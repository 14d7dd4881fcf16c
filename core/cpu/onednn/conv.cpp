#include "bytetape/core/cpu/activation.h"
#include "bytetape/core/cpu/onednn/program.h"
#include "bytetape/core/cpu/table.h"

namespace bytetape::cpu::onednn {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using Tag = memory::format_tag;

constexpr auto f32 = memory::data_type::f32;

/// Returns a weight's strides with those of size-1 dims normalised, because they do not matter.
Strides strides_of(const ConstView& w) {
  if (w.is_contiguous()) return contiguous_strides(w.shape);
  return is_channels_last(w.shape, w.strides) ? channels_last_strides(w.shape) : w.strides;
}

/// Descriptors of x, y and their gradients in their own layouts. Weights also have the layout that the primitive
/// prefers.
struct Descs {
  memory::desc x, any_weight, weight, bias, y;
  memory::dims stride, dilation, padding;

  Descs(const ConstView& x, const ConstView& weight, const ConstView& y, const Conv2dParams& p)
      : x(image(x)),
        any_weight(dims_of(weight, p.groups), f32, Tag::any),
        weight(dims_of(weight, p.groups), f32, strides_of_dims(weight, p.groups)),
        bias({y.shape[1]}, f32, Tag::a),
        y(image(y)),
        stride{p.stride.h, p.stride.w},
        dilation{p.dilation.h - 1, p.dilation.w - 1},
        padding{p.padding.h, p.padding.w} {}

  // Strides of size-1 dims do not matter, so one channel is both layouts. Channels-last has the faster kernels.
  static memory::desc image(const ConstView& x) {
    const memory::dims shape(x.shape.begin(), x.shape.end());
    return {shape, f32, is_channels_last(x.shape, x.strides) ? Tag::nhwc : Tag::nchw};
  }
  static memory::dims dims_of(const ConstView& w, std::int64_t groups) {
    if (groups == 1) return {w.shape.begin(), w.shape.end()};
    return {groups, w.shape[0] / groups, w.shape[1], w.shape[2], w.shape[3]};
  }
  static memory::dims strides_of_dims(const ConstView& w, std::int64_t groups) {
    const Strides s = strides_of(w);
    if (groups == 1) return {s.begin(), s.end()};
    return {w.shape[0] / groups * s[0], s[0], s[1], s[2], s[3]};
  }
  dnnl::convolution_forward::primitive_desc forward(bool with_bias) const {
    const auto kind = dnnl::prop_kind::forward_training;
    const auto how = algorithm::convolution_direct;
    if (with_bias)
      return describe<dnnl::convolution_forward>(kind, how, x, any_weight, bias, y, stride, dilation, padding, padding);
    return describe<dnnl::convolution_forward>(kind, how, x, any_weight, y, stride, dilation, padding, padding);
  }
};

Plan find(Key::Kind kind, const ConstView& x, const ConstView& weight, const ConstView& y, const Conv2dParams& p,
          bool with_bias, Program (*compile)(const Descs&, bool with_bias)) {
  Key key(kind);
  key.add(with_bias);
  key.add(x.shape);
  key.add(weight.shape);
  key.add(strides_of(weight));
  key.add(y.shape);
  key.add(is_channels_last(x.shape, x.strides));
  key.add(is_channels_last(y.shape, y.strides));
  for (const Size2 pair : {p.stride, p.padding, p.dilation})
    for (const std::int64_t v : {pair.h, pair.w}) key.add(v);
  key.add(p.groups);
  return plan_program(key, [&] { return compile(Descs(x, weight, y, p), with_bias); });
}

Program compile_forward(const Descs& d, bool with_bias) {
  const auto pd = d.forward(with_bias);
  Program program;
  const auto x = program.argument(d.x), weight = program.argument(d.weight), y = program.argument(d.y);
  Program::Arguments args{
      {DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, program.read_as(weight, pd.weights_desc())}, {DNNL_ARG_DST, y}};
  if (with_bias) args.emplace_back(DNNL_ARG_BIAS, program.argument(d.bias));
  program.step(pd, dnnl::convolution_forward(pd), args);
  return program;
}

Program compile_input_grad(const Descs& d, bool) {
  const auto pd =
      describe_backward<dnnl::convolution_backward_data>(d.forward(false), algorithm::convolution_direct, d.x,
                                                         d.any_weight, d.y, d.stride, d.dilation, d.padding, d.padding);
  Program program;
  const auto gy = program.argument(d.y), weight = program.argument(d.weight), gx = program.argument(d.x);
  program.step(pd, dnnl::convolution_backward_data(pd),
               {{DNNL_ARG_DIFF_DST, gy},
                {DNNL_ARG_WEIGHTS, program.read_as(weight, pd.weights_desc())},
                {DNNL_ARG_DIFF_SRC, gx}});
  return program;
}

Program compile_weight_grad(const Descs& d, bool with_bias) {
  using Primitive = dnnl::convolution_backward_weights;
  const auto how = algorithm::convolution_direct;
  const auto hint = d.forward(with_bias);
  const auto pd = with_bias ? describe_backward<Primitive>(hint, how, d.x, d.any_weight, d.bias, d.y, d.stride,
                                                           d.dilation, d.padding, d.padding)
                            : describe_backward<Primitive>(hint, how, d.x, d.any_weight, d.y, d.stride, d.dilation,
                                                           d.padding, d.padding);
  Program program;
  const auto x = program.argument(d.x), gy = program.argument(d.y), gw = program.argument(d.weight);
  const auto direct = pd.diff_weights_desc() == d.weight ? gw : program.scratch(pd.diff_weights_desc());
  Program::Arguments args{{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, gy}, {DNNL_ARG_DIFF_WEIGHTS, direct}};
  if (with_bias) args.emplace_back(DNNL_ARG_DIFF_BIAS, program.argument(d.bias));
  program.step(pd, Primitive(pd), args);
  if (direct != gw) program.reorder(direct, gw);
  return program;
}

bool is_fast(const ConstView& x) { return x.dtype == DType::f32 && x.numel() > 0; }

Plan plan_conv2d(const Conv2dArgs& a) {
  if (is_fast(a.x))
    if (Plan p = find(Key::Kind::conv2d, a.x, a.weight, a.y, a.params, a.bias.defined(), compile_forward);
        program_of(p).is_repeatable())
      return p;
  return portable::conv_kernels().conv2d.plan(a);
}
void conv2d(const Conv2dArgs& a, const Plan& plan, Workspace ws) {
  if (!plan.program) return portable::conv_kernels().conv2d.launch(a, plan, ws);
  program_of(plan).run({a.x.data(), a.weight.data(), a.y.data(), a.bias.data()}, ws.data);
  activate(a.activation, a.y);
}

Plan plan_input_grad(const Conv2dInputGradArgs& a) {
  if (is_fast(a.gx))
    if (Plan p = find(Key::Kind::conv2d_input_grad, a.gx, a.weight, a.gy, a.params, false, compile_input_grad);
        program_of(p).is_repeatable())
      return p;
  return portable::conv_kernels().conv2d_input_grad.plan(a);
}
void input_grad(const Conv2dInputGradArgs& a, const Plan& plan, Workspace ws) {
  if (!plan.program) return portable::conv_kernels().conv2d_input_grad.launch(a, plan, ws);
  program_of(plan).run({a.gy.data(), a.weight.data(), a.gx.data()}, ws.data);
}

Plan plan_weight_grad(const Conv2dWeightGradArgs& a) {
  if (is_fast(a.x))
    if (Plan p = find(Key::Kind::conv2d_weight_grad, a.x, a.gw, gy_in_kernel(a), a.params, a.gb.defined(),
                      compile_weight_grad);
        program_of(p).is_repeatable())
      return p;
  return portable::conv_kernels().conv2d_weight_grad.plan(a);
}
void weight_grad(const Conv2dWeightGradArgs& a, const Plan& plan, Workspace ws) {
  if (!plan.program) return portable::conv_kernels().conv2d_weight_grad.launch(a, plan, ws);
  program_of(plan).run({a.x.data(), through_activation(a).gy.data(), a.gw.data(), a.gb.data()}, ws.data);
}

}  // namespace

const ConvKernels& conv_kernels() {
  static const ConvKernels all{
      .conv2d = {plan_conv2d, conv2d},
      .conv2d_input_grad = {plan_input_grad, input_grad},
      .conv2d_weight_grad = {plan_weight_grad, weight_grad},
  };
  return all;
}

}  // namespace bytetape::cpu::onednn
