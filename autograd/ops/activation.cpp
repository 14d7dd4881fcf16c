#include "bytetape/autograd/ops/activation.h"

#include <string>
#include <vector>

#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/elementwise.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/core/kernels/activation.h"
#include "bytetape/core/kernels/pointwise.h"

namespace bytetape {
namespace {

/// Returns a view with a row of channels per pixel of a channels-last image, or per row. An undefined x gives an empty
/// view.
template <class V>
V as_rows(const V& x, std::int64_t channels) {
  if (!x.defined()) return x;
  return V(x.data(), x.dtype, x.device, {channels == 0 ? 0 : x.numel() / channels, channels}, {channels, 1});
}

/// With u = sqrt(2 / pi) (x + 0.044715 x^3) and s = sigmoid(2 u), the slope is s (1 + x (1 - s) d(2 u)/dx).
Tensor gelu_tanh_slope(const Tensor& x) {
  const Tensor square = x * x, s = sigmoid(x * (square * gelu_tanh_cubic + gelu_tanh_linear));
  return s * (1 + x * (1 - s) * (square * (3 * gelu_tanh_cubic) + gelu_tanh_linear));
}

}  // namespace

void fail_epilogue(Activation activation, Epilogues epilogues) {
  std::vector<std::string> names{"no activation"};
  for (const Activation other : all_activations)
    if (other != Activation::none && epilogues.contains(other)) names.emplace_back(name_of(other));
  std::string expected = names.front();
  for (std::size_t i = 1; i < names.size(); ++i) expected += (i + 1 < names.size() ? ", " : " or ") + names[i];
  fail<ValueError>("expected ", expected, ", got ", name_of(activation), "; apply another activation to the result");
}

Tensor activated(Activation activation, const Tensor& x) {
  check(activation == Activation::gelu_tanh, "expected ", name_of(Activation::gelu_tanh), ", got ",
        name_of(activation));
  const Tensor y = empty_like(x);
  run<&PointwiseKernels::gelu_tanh>(x.device(), x.read(), y.write());
  return y;
}

Tensor through_activation(Activation activation, const Tensor& saved, const Tensor& gy) {
  switch (activation) {
    case Activation::relu:
      return where(saved <= 0, 0, gy);
    case Activation::gelu_tanh:
      return gy * gelu_tanh_slope(saved);
    case Activation::none:
      return gy;
  }
  return gy;
}

Tensor activation_grad(Activation activation, Saved& saved, const Tensor& gy, const InputGrads& gx) {
  if (activation == Activation::none) return gy;
  if (grad_enabled()) return through_activation(activation, saved.get(), gy);
  const bool is_gelu = activation == Activation::gelu_tanh;
  Tensor g = is_gelu ? elementwise::fused<&PointwiseKernels::gelu_tanh_backward>(saved, gy, gx)
                     : elementwise::fused<&PointwiseKernels::relu_backward>(saved, gy, gx);
  if (!gx.keeps_graph()) saved.release();  // frees memory before the rule allocates more
  return g;
}

Tensor activation_and_bias_grad(Activation activation, Saved& saved, const Tensor& gy, InputGrads& gx,
                                Channels channels, DType bias_dtype) {
  const bool channel_dim = channels == Channels::channel_dim;
  const std::int64_t count = gy.size(channel_dim ? 1 : -1);
  if (!gx.needs(2) || grad_enabled()) {
    const Tensor g = activation_grad(activation, saved, gy, gx);
    if (gx.needs(2)) gx[2] = channel_dim ? sum(to(g, bias_dtype), {0, 2, 3}) : sum_to(to(g, bias_dtype), count);
    return g;
  }
  const Tensor gb = empty(count, accumulated(gy.dtype()) == bias_dtype ? bias_dtype : gy.dtype(), gy.device());
  const auto run = [&](Activation through, const Tensor& g, const Tensor& by, const Tensor& result) {
    run_planned<&ActivationKernels::bias_grad>(g.device(), {as_rows(g.read(), count), as_rows(read(by), count),
                                                            as_rows(write(result), count), gb.write(), through});
    gx[2] = to(gb, bias_dtype);
  };
  if (activation == Activation::none || !same_layout(gy.shape(), gy.strides(), saved.get().strides())) {
    const Tensor g = activation_grad(activation, saved, gy, gx), dense = channel_dim ? channels_last(g) : contiguous(g);
    run(Activation::none, dense, {}, {});
    return dense;
  }
  const elementwise::SavedAndResult over = elementwise::result_over(saved, gy, gx);
  run(activation, gy, over.saved, over.result);
  if (!gx.keeps_graph()) saved.release();
  return over.result;
}

}  // namespace bytetape
