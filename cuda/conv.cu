// Convolution through cuDNN, whose fast kernels want weights as (o, kh, kw, c / groups), which is channels-last: copies
// turn others around. What cuDNN does not take (f64, rare geometries, 2^31 elements) becomes products of matrices in
// im2col.cu, and images of few channels are conv_mma.cu's and conv_direct.cu's.
#include <algorithm>
#include <bit>

#include "bytetape/core/visit.h"
#include "bytetape/cuda/activation.h"
#include "bytetape/cuda/conv_direct.h"
#include "bytetape/cuda/conv_mma.h"
#include "bytetape/cuda/conv_sizes.h"
#include "bytetape/cuda/conv_warpgroup.h"
#include "bytetape/cuda/cudnn_graph.h"
#include "bytetape/cuda/elementwise.cuh"
#include "bytetape/cuda/im2col.h"
#include "bytetape/cuda/launch.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

/// What comes after a convolution that no engine finishes.
struct Finish {
  bool relu;
  template <class C>
  __device__ C operator()(C sum, C bias) const {
    const C y = sum + bias;
    return relu && y < 0 ? C(0) : y;
  }
};

void finish(const Conv2dArgs& a) {
  if (!a.bias.defined()) return activate(a.activation, a.y);
  const std::int64_t o = a.bias.shape[0], step = a.bias.strides[0];
  const ConstView bias(a.bias.data(), a.bias.dtype, a.bias.device, {1, o, 1, 1}, {0, step, 0, 0});
  visit_floating(a.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise<T, T, T>(Finish{a.activation == Activation::relu}, a.y, a.y, bias.expand(a.y.shape));
  });
}

std::int64_t alignment_of(const void* data) {
  return std::min<std::int64_t>(16, std::int64_t{1} << std::countr_zero(reinterpret_cast<std::uintptr_t>(data)));
}

/// A convolution as cuDNN may take it, and what is done around that.
class Launch {
 public:
  Launch(const ConvSizes& s, ConvMap map, const ConvWorkspace& parts, const ConstView& x, const ConstView& weight,
         const ConstView& y, Workspace ws)
      : problem_{.sizes = s, .map = map, .workspace = parts.library, .usual_workspace = parts.usual_library},
        device_(y.device),
        weight_(const_cast<void*>(weight.data()), weight.dtype, weight.device, weight.shape, weight.strides),
        turned_(static_cast<char*>(ws.data) + parts.weight, s.dtype, device_, weight.shape,
                weight_strides(x, weight, y)),
        scratch_(static_cast<char*>(ws.data) + parts.scratch),
        turns_weight_(turns_weight(x, weight, y)) {
    problem_.channels_last = are_channels_last(x, y);
    memory_ = {x.data(), turns_weight_ ? turned_.data() : weight_.data(), y.data(), nullptr};
    problem_.x_alignment = alignment_of(memory_.x);
    problem_.weight_alignment = alignment_of(memory_.weight);
    problem_.y_alignment = alignment_of(memory_.y);
    const bool row_major = x.is_contiguous() && y.is_contiguous();
    is_for_cudnn_ = s.dtype != DType::f64 && (problem_.channels_last || row_major) && is_small(s);
  }

  /// Finds cuDNN's graph; false where there is none.
  bool find(const void* bias = nullptr, Activation activation = Activation::none) {
    if (bias && alignment_of(bias) < 16) return false;
    problem_.with_bias = bias != nullptr;
    problem_.activation = activation;
    memory_.bias = bias;
    graph_ = is_for_cudnn_ ? find_graph(problem_, device_) : nullptr;
    return graph_ != nullptr;
  }
  void run() {
    const bool makes_weight = problem_.map == ConvMap::weight_grad;
    if (turns_weight_ && !makes_weight) copy_kernels().copy(weight_, turned_);
    cuda::run(*graph_, memory_, scratch_, device_);
    if (turns_weight_ && makes_weight) copy_kernels().copy(turned_, weight_);
  }
  void* scratch() const { return scratch_; }

 private:
  ConvProblem problem_;
  Device device_;
  View weight_, turned_;  // as the caller has it, and as cuDNN wants it, in x's dtype
  void* scratch_;
  bool turns_weight_, is_for_cudnn_;
  ConvMemory memory_{};
  ConvGraph* graph_ = nullptr;
};

void conv2d(const Conv2dArgs& a, const Plan& plan, Workspace ws) {
  const ConvSizes s(a);
  if (s.n == 0) return;
  if (plan.algorithm == conv_mma) return mma_forward(a);
  if (plan.algorithm == conv_direct) return direct_forward(a);
  Launch launch(s, ConvMap::forward, ConvWorkspace(a), a.x, a.weight, a.y, ws);
  if (launch.find(a.bias.data(), a.activation)) return launch.run();
  if (!launch.find()) return im2col_forward(a, launch.scratch());
  launch.run();
  finish(a);
}

void conv2d_input_grad(const Conv2dInputGradArgs& a, const Plan&, Workspace ws) {
  const ConvSizes s(a);
  if (s.n == 0) return;
  Launch launch(s, ConvMap::input_grad, ConvWorkspace(a), a.gx, a.weight, a.gy, ws);
  launch.find() ? launch.run() : im2col_input_grad(a, launch.scratch());
}

void fill_zero(const View& x) {
  if (!x.defined()) return;
  check(cudaMemsetAsync(x.data(), 0, static_cast<std::size_t>(x.numel()) * size_of(x.dtype), stream_of(x.device)));
}

void conv2d_weight_grad(const Conv2dWeightGradArgs& args, const Plan& plan, Workspace ws) {
  const ConvSizes s(args);
  if (s.n == 0) {
    fill_zero(args.gw);
    return fill_zero(args.gb);
  }
  if (plan.algorithm == conv_mma) return mma_weight_grad(args, ws.data);
  if (plan.algorithm == conv_direct) return direct_weight_grad(args, ws.data);
  if (plan.algorithm == conv_warpgroup && capability(args.gw.device) == 90) return warpgroup_weight_grad(args, ws.data);
  const Conv2dWeightGradArgs a = through_activation(args);
  const ConvWorkspace parts(a);
  Launch launch(s, ConvMap::weight_grad, parts, a.x, a.gw, a.gy, ws);
  launch.find() ? launch.run() : im2col_weight_grad(a, launch.scratch());
  if (!a.gb.defined()) return;
  const SumArgs sum = bias_grad_of(a);
  reduce_kernels().sum.launch(sum, cuda::plan(sum),
                              {static_cast<char*>(ws.data) + parts.sums, parts.scratch - parts.sums});
}

}  // namespace

ConvKernels conv_kernels() {
  return {
      .conv2d = {plan, conv2d},
      .conv2d_input_grad = {plan, conv2d_input_grad},
      .conv2d_weight_grad = {plan, conv2d_weight_grad},
      .widens_weight_grad = widens_weight_grad,
  };
}

}  // namespace bytetape::cuda
