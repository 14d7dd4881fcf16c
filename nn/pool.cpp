#include "bytetape/nn/pool.h"

#include "bytetape/autograd/ops/images/pool.h"
#include "bytetape/core/error.h"
#include "bytetape/nn/call.h"
#include "bytetape/nn/fusion.h"

namespace bytetape::nn {
namespace {

Pool2dParams params_of(Size2 kernel, Size2 stride, Size2 padding) {
  return {kernel, {stride.h ? stride.h : kernel.h, stride.w ? stride.w : kernel.w}, padding};
}

/// Returns, for example, "2x2, stride=2x2".
std::string describe_params(const Pool2dParams& p) {
  const std::string padding = p.padding == 0 ? "" : detail::concat(", padding=", p.padding.h, "x", p.padding.w);
  return detail::concat(p.kernel.h, "x", p.kernel.w, ", stride=", p.stride.h, "x", p.stride.w, padding);
}

}  // namespace

MaxPool2d::MaxPool2d(Size2 kernel, Size2 stride, Size2 padding) : params_(params_of(kernel, stride, padding)) {}
Tensor MaxPool2d::forward(const Tensor& x) { return max_pool2d(x, params_); }
Tensor MaxPool2d::operator()(const Tensor& x, Activation activation) {
  return call(
      *this, [this, activation](const Tensor& x) { return max_pool2d(x, params_, activation); }, x);
}
FusionRole MaxPool2d::fusion_role() const { return FusionRole::for_maximum(*this, PoolKernels::epilogues); }
std::string MaxPool2d::describe() const { return "MaxPool2d(" + describe_params(params_) + ")"; }

AvgPool2d::AvgPool2d(Size2 kernel, Size2 stride, Size2 padding, bool count_include_pad)
    : params_(params_of(kernel, stride, padding)), count_include_pad_(count_include_pad) {}
Tensor AvgPool2d::forward(const Tensor& x) { return avg_pool2d(x, params_, count_include_pad_); }
std::string AvgPool2d::describe() const {
  return "AvgPool2d(" + describe_params(params_) + (count_include_pad_ ? ")" : ", count_include_pad=false)");
}

Tensor AdaptiveAvgPool2d::forward(const Tensor& x) { return adaptive_avg_pool2d(x, output_size_); }
std::string AdaptiveAvgPool2d::describe() const {
  return detail::concat("AdaptiveAvgPool2d(", output_size_.h, "x", output_size_.w, ")");
}

}  // namespace bytetape::nn
