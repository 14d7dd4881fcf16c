#include "bytetape/autograd/ops/norm/group_norm.h"

#include <utility>

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/kernels/group_norm.h"

namespace bytetape {

using enum AttributeType;

namespace {

void check_inputs(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
  check_floating(x);
  check(x.rank() >= 2, "expected x (n, c, ...), got ", describe(x));
  check<ValueError>(groups > 0 && x.size(1) % groups == 0, "expected a positive number of groups that divides the ",
                    x.size(1), " channels of ", describe(x), ", got ", groups);
  for (const auto& [v, name] : {std::pair{&weight, "weight"}, {&bias, "bias"}}) {
    check_coefficient(*v, name, x);
    check(!v->defined() || v->shape() == Shape{x.size(1)}, "expected a ", name, " for each of the ", x.size(1),
          " channels of ", describe(x), ", got ", describe(*v));
  }
  check<ValueError>(x.numel() != groups, "expected more than one value a group, got ", groups, " groups of ",
                    describe(x));
  check<ValueError>(eps >= 0, "eps must not be negative, got ", eps);
}

/// Returns x as the kernels take it: 4-D, channels-last if it is already, else row-major.
Tensor as_image(const Tensor& x) {
  if (x.rank() == 4) return is_channels_last(x.shape(), x.strides()) ? x : contiguous(x);
  return reshape(contiguous(x), {x.size(0), x.size(1), 1, x.size(0) * x.size(1) == 0 ? 0 : -1});
}

}  // namespace

/// The rule for x as an image. weight and bias have the dtype in which groups are accumulated.
struct GroupNormBackward final : Node {
  Saved x{this}, weight{this}, mean{this}, rstd{this};
  std::int64_t groups = 1;
  double eps = 0;

  void composed(const Tensor& gy, InputGrads& gx) const {
    const Tensor input = x.get(), w = weight.get();
    const DType wide = accumulated(gy.dtype());
    const std::int64_t n = input.size(0), c = input.size(1), of_group = c / groups;
    const Shape parts{n, groups, of_group, input.size(2) * input.size(3)};
    const auto grouped = [&](const Tensor& t) { return reshape(to(t, wide), parts); };
    const auto group_mean = [&](const Tensor& t) { return bytetape::mean(t, {2, 3}, true); };
    const Tensor v = grouped(input), g = grouped(gy), centred = v - group_mean(v);
    const Tensor r = rsqrt(group_mean(centred * centred) + eps), h = centred * r;
    const Tensor scaled = w.defined() ? g * view(w, {groups, of_group, 1}) : g;
    if (gx.needs(0))
      gx[0] = to(reshape(r * (scaled - group_mean(scaled) - h * group_mean(scaled * h)), gy.shape()), gy.dtype());
    if (gx.needs(1)) gx[1] = reshape(sum(g * h, {0, 3}), c);
    if (gx.needs(2)) gx[2] = reshape(sum(g, {0, 3}), c);
  }
  void fused(const Tensor& gy, InputGrads& gx) const {
    const Tensor input = x.get(), w = weight.get(),
                 g = is_channels_last(input.shape(), input.strides()) ? channels_last(gy) : contiguous(gy);
    if (gx.needs(0)) gx[0] = empty_like(input);
    for (const std::size_t i : {1, 2})
      if (gx.needs(i)) gx[i] = empty(input.size(1), accumulated(input.dtype()), input.device());
    run_planned<&GroupNormKernels::group_norm_backward>(
        input.device(), {input.read(), read(w), mean.get().read(), rstd.get().read(), g.read(), groups, write(gx[0]),
                         write(gx[1]), write(gx[2])});
  }
  void backward(const Grads& gy, InputGrads& gx) override {
    if (!gx.needs(0) && !gx.needs(1))
      gx[2] = sum(to(gy[0], accumulated(gy[0].dtype())), {0, 2, 3});
    else if (grad_enabled())
      composed(gy[0], gx);
    else
      fused(gy[0], gx);
  }
};
static Tensor group_norm_image(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias,
                               double eps) {
  const Tensor y = empty_like(x), mean = empty({x.size(0), groups}, accumulated(x.dtype()), x.device()),
               rstd = empty_like(mean);
  run<&GroupNormKernels::group_norm>(x.device(), GroupNormArgs{x.read(), read(weight), read(bias), groups, eps,
                                                               y.write(), mean.write(), rstd.write()});
  auto* node = record<GroupNormBackward>(y, x, weight, bias);
  if (!node) return y;
  if (node->needs(0) || node->needs(1)) {
    node->x.save(x);
    node->mean.save(mean);
    node->rstd.save(rstd);
  }
  if (node->needs(0)) node->weight.save(weight);
  node->groups = groups;
  node->eps = eps;
  return y;
}

constexpr OpDefinition group_norm_op{.name = "group_norm",
                                     .inputs = {"x", "weight", "bias"},
                                     .attributes = {{"num_groups", integer}, {"eps", number}},
                                     .family = Family::group_norm,
                                     .autocast = AutocastClass::f32};
Tensor group_norm(const Tensor& input, std::int64_t num_groups, const Tensor& scale, const Tensor& shift, double eps) {
  const Op<group_norm_op> op(input, scale, shift, num_groups, eps);
  const Tensor x = op.input(input), weight = op.input(scale), bias = op.input(shift);
  check_inputs(x, num_groups, weight, bias, eps);
  const auto coefficients = [&](const Tensor& v) {
    return v.defined() ? contiguous(to(v, accumulated(x.dtype()))) : v;
  };
  const Tensor y = group_norm_image(as_image(x), num_groups, coefficients(weight), coefficients(bias), eps);
  return op.result(x.rank() == 4 ? y : view(y, x.shape()));
}

}  // namespace bytetape
