#include "bytetape/autograd/ops/activation.h"

#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/elementwise.h"
#include "bytetape/autograd/ops/reduce.h"

namespace bytetape {
namespace {

/// A row of channels for each pixel of a channels-last image, or for each row; an undefined tensor's view is empty.
template <class V>
V as_rows(const V& x, std::int64_t channels) {
  if (!x.defined()) return x;
  return V(x.data(), x.dtype, x.device, {channels == 0 ? 0 : x.numel() / channels, channels}, {channels, 1});
}

}  // namespace

Tensor through_activation(Activation activation, const Tensor& y, const Tensor& gy) {
  return activation == Activation::none ? gy : where(y <= 0, 0, gy);
}

Tensor activation_grad(Activation activation, Saved& y, const Tensor& gy, const InputGrads& gx) {
  if (activation == Activation::none) return gy;
  if (grad_enabled()) return through_activation(activation, y.get(), gy);
  Tensor g = elementwise::fused<&Kernels::relu_backward>(y, gy, gx);
  if (!gx.keeps_graph()) y.release();  // before what else the rule allocates
  return g;
}

Tensor activation_and_bias_grad(Activation activation, Saved& y, const Tensor& gy, InputGrads& gx, Channels channels,
                                DType bias_dtype) {
  const bool of_image = channels == Channels::of_image;
  const std::int64_t count = gy.size(of_image ? 1 : -1);
  if (!gx.needs(2) || grad_enabled()) {
    const Tensor g = activation_grad(activation, y, gy, gx);
    if (gx.needs(2)) gx[2] = of_image ? sum(to(g, bias_dtype), {0, 2, 3}) : sum_to(to(g, bias_dtype), count);
    return g;
  }
  const Tensor gb = empty(count, accumulated(gy.dtype()) == bias_dtype ? bias_dtype : gy.dtype(), gy.device());
  const auto run = [&](Activation through, const Tensor& g, const Tensor& result, const Tensor& masked) {
    run_planned<&Kernels::bias_grad>(g.device(), {as_rows(g.read(), count), as_rows(read(result), count),
                                                  as_rows(write(masked), count), gb.write(), through});
    gx[2] = to(gb, bias_dtype);
  };
  if (activation == Activation::none || !same_layout(gy.shape(), gy.strides(), y.get().strides())) {
    const Tensor g = activation_grad(activation, y, gy, gx), dense = of_image ? channels_last(g) : contiguous(g);
    run(Activation::none, dense, {}, {});
    return dense;
  }
  const elementwise::SavedAndResult over = elementwise::result_over(y, gy, gx);
  run(activation, gy, over.saved, over.result);
  if (!gx.keeps_graph()) y.release();
  return over.result;
}

}  // namespace bytetape
