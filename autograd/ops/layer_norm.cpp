#include "bytetape/autograd/ops/layer_norm.h"

#include <algorithm>
#include <utility>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/view.h"

namespace bytetape {
namespace {

void check_inputs(const Tensor& x, const Shape& shape, const Tensor& weight, const Tensor& bias, double eps) {
  check_floating(x);
  check(!shape.empty(), "normalized_shape is empty");
  check(shape.size() <= x.rank() && std::equal(shape.begin(), shape.end(), x.shape().end() - shape.size()),
        "expected x whose last dims are ", shape, ", got ", describe(x));
  for (const auto& [v, name] : {std::pair{&weight, "weight"}, {&bias, "bias"}}) {
    check_coefficient(*v, name, x);
    check(!v->defined() || v->shape() == shape, "expected a ", name, " ", shape, ", got ", describe(*v), " for x ",
          describe(x));
  }
  check<ValueError>(eps >= 0, "eps must not be negative, got ", eps);
}

}  // namespace

/// Of x (rows, n), with weight and bias (n) in the dtype that rows are accumulated in.
struct LayerNormBackward final : Node {
  Saved x{this}, weight{this}, mean{this}, rstd{this};
  double eps = 0;

  void composed(const Tensor& gy, InputGrads& gx) const {
    const Tensor v = to(x.get(), accumulated(gy.dtype())), g = to(gy, v.dtype()), w = weight.get();
    const auto row_mean = [](const Tensor& t) { return bytetape::mean(t, 1, true); };
    const Tensor centred = v - row_mean(v), r = rsqrt(row_mean(centred * centred) + eps), h = centred * r;
    const Tensor scaled = w.defined() ? g * w : g;
    if (gx.needs(0)) gx[0] = to(r * (scaled - row_mean(scaled) - h * row_mean(scaled * h)), gy.dtype());
    if (gx.needs(1)) gx[1] = sum(g * h, 0);
    if (gx.needs(2)) gx[2] = sum(g, 0);
  }
  void backward(const Grads& gys, InputGrads& gx) override {
    if (!gx.needs(0) && !gx.needs(1)) {  // the bias alone
      gx[2] = sum(to(gys[0], accumulated(gys[0].dtype())), 0);
      return;
    }
    if (grad_enabled()) return composed(gys[0], gx);
    const Tensor v = x.get(), w = weight.get(), gy = contiguous(gys[0]);
    for (const std::size_t i : {0, 1, 2})
      if (gx.needs(i)) gx[i] = i == 0 ? empty_like(v) : empty(v.size(1), accumulated(v.dtype()), v.device());
    run_planned<&Kernels::layer_norm_backward>(v.device(), {v.read(), read(w), mean.get().read(), rstd.get().read(),
                                                            gy.read(), write(gx[0]), write(gx[1]), write(gx[2])});
  }
};
static Tensor layer_norm_rows(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  Tensor y = empty_like(x), mean = empty(x.size(0), accumulated(x.dtype()), x.device()), rstd = empty_like(mean);
  run<&Kernels::layer_norm>(x.device(), x.read(), read(weight), read(bias), eps, y.write(), mean.write(), rstd.write());
  if (auto* node = record<LayerNormBackward>(y, x, weight, bias)) {
    if (node->needs(0) || node->needs(1)) {
      node->x.save(x);
      node->mean.save(mean);
      node->rstd.save(rstd);
    }
    if (node->needs(0)) node->weight.save(weight);
    node->eps = eps;
  }
  return y;
}

Tensor layer_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight, const Tensor& bias,
                  double eps) {
  const Op<"layer_norm"> op;
  const Tensor x = widened(input);
  check_inputs(x, normalized_shape, weight, bias, eps);
  const std::int64_t n = numel(normalized_shape), rows = n == 0 ? 0 : x.numel() / n;
  const auto row = [&](const Tensor& v) {
    return v.defined() ? reshape(contiguous(to(v, accumulated(x.dtype()))), n) : v;
  };
  return view(layer_norm_rows(reshape(contiguous(x), {rows, n}), row(weight), row(bias), eps), x.shape());
}

}  // namespace bytetape
