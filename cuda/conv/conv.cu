// Convolution with cuDNN. Its fast kernels need weights in the order (o, kh, kw, c / groups), which is channels-last,
// and aligned addresses. Other operands are copied. What cuDNN does not support (f64, rare geometries, 2^31 elements)
// runs as matrix products in im2col.cu. Images of few channels run in conv_mma.cu and conv_direct.cu.
#include "bytetape/core/kernels/copy.h"
#include "bytetape/core/visit.h"
#include "bytetape/cuda/conv/conv_direct.h"
#include "bytetape/cuda/conv/conv_mma.h"
#include "bytetape/cuda/conv/conv_sizes.h"
#include "bytetape/cuda/conv/conv_warpgroup.h"
#include "bytetape/cuda/conv/cudnn_graph.h"
#include "bytetape/cuda/conv/im2col.h"
#include "bytetape/cuda/plans.h"
#include "bytetape/cuda/pointwise/activation.h"
#include "bytetape/cuda/pointwise/elementwise.cuh"
#include "bytetape/cuda/runtime/launch.h"
#include "bytetape/cuda/table.h"

namespace bytetape::cuda {
namespace {

/// Applies bias and activation after a convolution, if no engine applied them in its epilogue.
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

/// A tensor that cuDNN reads or writes: the caller's, or its copy in the workspace.
class Operand {
 public:
  /// A copy, if `copy` asks for one, has `strides` and the compute dtype.
  Operand(const ConstView& v, const ConvWorkspace::Copy& copy, const Strides& strides, DType dtype, Workspace ws)
      : given_(const_cast<void*>(v.data()), v.dtype, v.device, v.shape, v.strides), is_copied_(copy.exists) {
    used_ = is_copied_ ? View(static_cast<char*>(ws.data) + copy.at, dtype, v.device, v.shape, strides) : given_;
  }
  void* data() const { return used_.data(); }
  void load() const {
    if (is_copied_) copy_kernels().copy(given_, used_);
  }
  void store() const {
    if (is_copied_) copy_kernels().copy(used_, given_);
  }

 private:
  View given_, used_;
  bool is_copied_;
};

/// A convolution with cuDNN, and the copies and launches around it.
class Launch {
 public:
  Launch(const ConvSizes& s, ConvMap map, const ConvWorkspace& parts, const ConstView& x, const ConstView& weight,
         const ConstView& y, const ConstView& bias, Workspace ws)
      : problem_{.sizes = s, .map = map, .workspace = parts.library, .usual_workspace = parts.usual_library},
        device_(y.device),
        x_(x, parts.x, x.strides, s.dtype, ws),
        weight_(weight, parts.weight, weight_strides(x, weight, y), s.dtype, ws),
        y_(y, parts.y, y.strides, s.dtype, ws),
        bias_(bias, parts.bias, {1}, s.dtype, ws),
        scratch_(static_cast<char*>(ws.data) + parts.scratch),
        may_use_cudnn_(may_use_cudnn(s, x, y)) {
    problem_.channels_last = are_channels_last(x, y);
  }

  /// Finds cuDNN's graph. Returns false if cuDNN has no graph for this convolution.
  bool find(bool with_bias = false, Activation activation = Activation::none) {
    problem_.with_bias = with_bias;
    problem_.activation = activation;
    graph_ = may_use_cudnn_ ? find_graph(problem_, device_) : nullptr;
    return graph_ != nullptr;
  }
  void run() {
    for (const Operand* operand : {&x_, &weight_, &y_})
      if (operand != &result()) operand->load();
    if (problem_.with_bias) bias_.load();
    cuda::run(graph_, {x_.data(), weight_.data(), y_.data(), bias_.data()}, scratch_, device_);
    result().store();
  }
  void* scratch() const { return scratch_; }

 private:
  const Operand& result() const {
    return problem_.map == ConvMap::forward ? y_ : problem_.map == ConvMap::input_grad ? x_ : weight_;
  }

  ConvProblem problem_;
  Device device_;
  Operand x_, weight_, y_, bias_;
  void* scratch_;
  bool may_use_cudnn_;
  std::shared_ptr<ConvGraph> graph_;
};

void conv2d(const Conv2dArgs& a, const Plan& plan, Workspace ws) {
  const ConvSizes s(a);
  if (s.n == 0) return;
  if (plan.algorithm == conv_mma) return mma_forward(a);
  if (plan.algorithm == conv_direct) return direct_forward(a);
  Launch launch(s, ConvMap::forward, ConvWorkspace(a), a.x, a.weight, a.y, a.bias, ws);
  if (launch.find(a.bias.defined(), a.activation)) return launch.run();
  if (!launch.find()) return im2col_forward(a, launch.scratch());
  launch.run();
  finish(a);
}

void conv2d_input_grad(const Conv2dInputGradArgs& a, const Plan&, Workspace ws) {
  const ConvSizes s(a);
  if (s.n == 0) return;
  Launch launch(s, ConvMap::input_grad, ConvWorkspace(a), a.gx, a.weight, a.gy, {}, ws);
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
  Launch launch(s, ConvMap::weight_grad, parts, a.x, a.gw, a.gy, {}, ws);
  launch.find() ? launch.run() : im2col_weight_grad(a, launch.scratch());
  if (!a.gb.defined()) return;
  const SumArgs sum = bias_grad_of(a);
  reduce_kernels().sum.launch(sum, reduce_plans().sum.plan(sum),
                              {static_cast<char*>(ws.data) + parts.sums, parts.scratch - parts.sums});
}

}  // namespace

const ConvKernels& conv_kernels() {
  static const ConvKernels all{
      .conv2d = {conv_plans().conv2d.plan, conv2d},
      .conv2d_input_grad = {conv_plans().conv2d_input_grad.plan, conv2d_input_grad},
      .conv2d_weight_grad = {conv_plans().conv2d_weight_grad.plan, conv2d_weight_grad},
      .widens_weight_grad = conv_plans().widens_weight_grad,
  };
  return all;
}

}  // namespace bytetape::cuda
