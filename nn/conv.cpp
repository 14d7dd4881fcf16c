#include "bytetape/nn/conv.h"

#include <cmath>

#include "bytetape/autograd/ops/conv.h"
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

/// PyTorch's initial values; the bias may be undefined.
void initialise(Tensor& weight, Tensor& bias) {
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  const double bound = 1 / std::sqrt(static_cast<double>(init::fan_in(weight)));
  if (bias.defined()) init::uniform_(bias, -bound, bound);
}

/// As in ", stride=2x1", where it is not the usual one.
std::string option(const char* name, Size2 v, Size2 usual) {
  return v == usual ? "" : detail::concat(", ", name, "=", v.h, "x", v.w);
}
std::string last_options(std::int64_t groups, bool bias) {
  return (groups == 1 ? "" : detail::concat(", groups=", groups)) + (bias ? ")" : ", bias=false)");
}

}  // namespace

Padding2::Padding2(const char* name) : size(0), same(name && std::string_view(name) == "same") {
  check<ValueError>(name != nullptr, "Conv2d: padding is a null pointer");
  check<ValueError>(same || std::string_view(name) == "valid",
                    "Conv2d: padding is a size, \"same\" or \"valid\", not \"", name, "\"");
}

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, Size2 kernel, Conv2dOptions o)
    : same_(o.padding.same) {
  check_sizes("Conv2d", in_channels, out_channels, kernel, o.groups);
  check<ValueError>(!o.padding.same || (o.stride.h == 1 && o.stride.w == 1),
                    "Conv2d: padding \"same\" needs stride 1, got ", o.stride.h, " x ", o.stride.w);
  params_ = {o.stride, o.padding.size, o.dilation, o.groups};
  if (o.padding.same) {
    const std::int64_t total[2] = {o.dilation.h * (kernel.h - 1), o.dilation.w * (kernel.w - 1)};
    for (int i = 0; i < 2; ++i) {
      params_.padding[i] = (total[i] + 1) / 2;
      uneven_[i] = total[i] % 2 != 0;
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
  // One row too many in front: the extra padding belongs at the end.
  for (int i = 0; i < 2; ++i)
    if (uneven_[i]) y = narrow(y, 2 + i, 1, y.size(2 + i) - 1);
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
