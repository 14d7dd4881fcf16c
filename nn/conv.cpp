#include "bytetape/nn/conv.h"

#include <cmath>

#include "bytetape/autograd/ops/images/conv.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/error.h"
#include "bytetape/nn/call.h"
#include "bytetape/nn/fusion.h"
#include "bytetape/nn/init.h"

namespace bytetape::nn {

namespace {

void check_sizes(const char* name, std::int64_t in_channels, std::int64_t out_channels, Size2 kernel,
                 std::int64_t groups) {
  check<ValueError>(
      in_channels > 0 && out_channels > 0 && groups > 0 && in_channels % groups == 0 && out_channels % groups == 0,
      name, " needs positive channels that ", groups, " groups divide, got ", in_channels, " and ", out_channels);
  check<ValueError>(kernel.h > 0 && kernel.w > 0, name, " needs a positive kernel size, got ", kernel.h, " x ",
                    kernel.w);
}

/// Sets PyTorch's initial values. The bias may be undefined.
void initialise(Tensor& weight, Tensor& bias) {
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  const double bound = 1 / std::sqrt(static_cast<double>(init::fan_in(weight)));
  if (bias.defined()) init::uniform_(bias, -bound, bound);
}

/// Checks the name of a padding. Returns whether it is "same".
bool is_same(const char* layer, const char* name) {
  check<ValueError>(name != nullptr, layer, ": padding is a null pointer");
  const std::string_view text = name;
  check<ValueError>(text == "same" || text == "valid", layer, ": padding is a size, \"same\" or \"valid\", not \"",
                    name, "\"");
  return text == "same";
}
/// The padding at each end for "same". If it is uneven, the start gets one element more than it needs.
struct SamePadding {
  std::int64_t size;
  bool is_uneven;
  SamePadding(std::int64_t kernel, std::int64_t dilation)
      : size((dilation * (kernel - 1) + 1) / 2), is_uneven(dilation * (kernel - 1) % 2 != 0) {}
};
/// Drops the first element of a dim of y.
Tensor without_first(const Tensor& y, int dim) { return narrow(y, dim, 1, y.size(dim) - 1); }

/// The strides of (o, c, k) with the channels innermost.
Strides channels_innermost(const Shape& s) { return {s[1] * s[2], 1, s[1]}; }

/// Returns, for example, ", stride=2". Empty if v is the usual value.
std::string option(const char* name, std::int64_t v, std::int64_t usual) {
  return v == usual ? "" : detail::concat(", ", name, "=", v);
}
/// Returns, for example, ", stride=2x1". Empty if v is the usual value.
std::string option(const char* name, Size2 v, Size2 usual) {
  return v == usual ? "" : detail::concat(", ", name, "=", v.h, "x", v.w);
}
std::string last_options(std::int64_t groups, bool bias) {
  return (groups == 1 ? "" : detail::concat(", groups=", groups)) + (bias ? ")" : ", bias=false)");
}

}  // namespace

Padding2::Padding2(const char* name) : size(0), same(is_same("Conv2d", name)) {}
Padding1::Padding1(const char* name) : size(0), same(is_same("Conv1d", name)) {}

Conv1d::Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel, Conv1dOptions o)
    : params_{o.stride, o.padding.size, o.dilation, o.groups}, same_(o.padding.same) {
  check_sizes("Conv1d", in_channels, out_channels, {1, kernel}, o.groups);
  check<ValueError>(!same_ || o.stride == 1, "Conv1d: padding \"same\" needs stride 1, got ", o.stride);
  if (same_) {
    const SamePadding same(kernel, o.dilation);
    params_.padding = same.size;
    uneven_ = same.is_uneven;
  }
  weight = register_parameter("weight", {out_channels, in_channels / o.groups, kernel}, channels_innermost);
  bias = o.bias ? register_parameter("bias", Shape{out_channels}) : register_parameter("bias", Tensor());
  initialise(weight, bias);
}

Tensor Conv1d::forward(const Tensor& x) { return convolve(x, Activation::none); }

Tensor Conv1d::operator()(const Tensor& x, Activation activation) {
  return call(
      *this, [this, activation](const Tensor& x) { return convolve(x, activation); }, x);
}

FusionRole Conv1d::fusion_role() const { return FusionRole::for_layer(*this, ConvKernels::epilogues); }

Tensor Conv1d::convolve(const Tensor& x, Activation activation) {
  const Tensor y = conv1d(x, weight, bias, params_, activation);
  return uneven_ ? without_first(y, 2) : y;
}

std::string Conv1d::describe() const {
  const Shape& s = weight.shape();
  const std::string text = detail::concat("Conv1d(", s[1] * params_.groups, ", ", s[0], ", kernel=", s[2]);
  return text + option("stride", params_.stride, 1) +
         (same_ ? ", padding=same" : option("padding", params_.padding, 0)) + option("dilation", params_.dilation, 1) +
         last_options(params_.groups, bias.defined());
}

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, Size2 kernel, Conv2dOptions o)
    : same_(o.padding.same) {
  check_sizes("Conv2d", in_channels, out_channels, kernel, o.groups);
  check<ValueError>(!o.padding.same || (o.stride.h == 1 && o.stride.w == 1),
                    "Conv2d: padding \"same\" needs stride 1, got ", o.stride.h, " x ", o.stride.w);
  params_ = {o.stride, o.padding.size, o.dilation, o.groups};
  if (o.padding.same) {
    for (int i = 0; i < 2; ++i) {
      const SamePadding same(kernel[i], o.dilation[i]);
      params_.padding[i] = same.size;
      uneven_[i] = same.is_uneven;
    }
  }
  weight =
      register_parameter("weight", {out_channels, in_channels / o.groups, kernel.h, kernel.w}, channels_last_strides);
  bias = o.bias ? register_parameter("bias", Shape{out_channels}) : register_parameter("bias", Tensor());
  initialise(weight, bias);
}

Tensor Conv2d::forward(const Tensor& x) { return convolve(x, Activation::none); }

Tensor Conv2d::operator()(const Tensor& x, Activation activation) {
  return call(
      *this, [this, activation](const Tensor& x) { return convolve(x, activation); }, x);
}

FusionRole Conv2d::fusion_role() const { return FusionRole::for_layer(*this, ConvKernels::epilogues); }

Tensor Conv2d::convolve(const Tensor& x, Activation activation) {
  Tensor y = conv2d(x, weight, bias, params_, activation);
  for (int i = 0; i < 2; ++i)
    if (uneven_[i]) y = without_first(y, 2 + i);
  return y;
}

std::string Conv2d::describe() const {
  const Shape& s = weight.shape();
  const std::string text = detail::concat("Conv2d(", s[1] * params_.groups, ", ", s[0], ", kernel=", s[2], "x", s[3]);
  return text + option("stride", params_.stride, 1) +
         (same_ ? ", padding=same" : option("padding", params_.padding, 0)) + option("dilation", params_.dilation, 1) +
         last_options(params_.groups, bias.defined());
}

ConvTranspose2d::ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, Size2 kernel,
                                 ConvTranspose2dOptions o)
    : params_{o.stride, o.padding, o.output_padding, o.dilation, o.groups} {
  check_sizes("ConvTranspose2d", in_channels, out_channels, kernel, o.groups);
  weight =
      register_parameter("weight", {in_channels, out_channels / o.groups, kernel.h, kernel.w}, channels_last_strides);
  bias = o.bias ? register_parameter("bias", Shape{out_channels}) : register_parameter("bias", Tensor());
  initialise(weight, bias);
}

Tensor ConvTranspose2d::forward(const Tensor& x) { return conv_transpose2d(x, weight, bias, params_); }

std::string ConvTranspose2d::describe() const {
  const Shape& s = weight.shape();
  const std::string text =
      detail::concat("ConvTranspose2d(", s[0], ", ", s[1] * params_.groups, ", kernel=", s[2], "x", s[3]);
  return text + option("stride", params_.stride, 1) + option("padding", params_.padding, 0) +
         option("output_padding", params_.output_padding, 0) + option("dilation", params_.dilation, 1) +
         last_options(params_.groups, bias.defined());
}

}  // namespace bytetape::nn
