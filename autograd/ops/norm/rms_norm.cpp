#include "bytetape/autograd/ops/norm/rms_norm.h"

#include <limits>
#include <optional>

#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/norm/normalized_rows.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/core/kernels/rms_norm.h"

namespace bytetape {

using enum AttributeType;

/// The normalised rows, and 1 / RMS of each.
struct RmsNormed {
  Tensor y, rstd;
};
static RmsNormed rms_norm_made(const Tensor& x, const Tensor& weight, double eps) {
  const Tensor y = empty_like(x), rstd = empty(x.size(0), accumulated(x.dtype()), x.device());
  run<&RmsNormKernels::rms_norm>(
      x.device(),
      LayerNormArgs{.x = x.read(), .weight = read(weight), .eps = eps, .y = y.write(), .rstd = rstd.write()});
  return {y, rstd};
}

/// The rule for x (rows, n). weight (n) has the dtype in which rows are accumulated.
struct RmsNormBackward final : Node {
  Saved x{this}, weight{this}, rstd{this};
  double eps = 0;
  std::optional<std::uint32_t> result_version;  // if remake() has what it needs

  bool can_remake(const Tensor& y) const override { return x.is_intact() && y.storage().version() == result_version; }
  Tensor remake() const override { return rms_norm_made(x.get(), weight.get(), eps).y; }
  void composed(const Tensor& gy, InputGrads& gx) const {
    const Tensor v = to(x.get(), accumulated(gy.dtype())), g = to(gy, v.dtype()), w = weight.get();
    const auto row_mean = [](const Tensor& t) { return mean(t, 1, true); };
    const Tensor r = rsqrt(row_mean(v * v) + eps), h = v * r;
    const Tensor scaled = w.defined() ? g * w : g;
    if (gx.needs(0)) gx[0] = to(r * (scaled - h * row_mean(scaled * h)), gy.dtype());
    if (gx.needs(1)) gx[1] = sum(g * h, 0);
  }
  void fused(const Tensor& gy, InputGrads& gx) const {
    const Tensor v = x.get(), w = weight.get(), g = contiguous(gy);
    if (gx.needs(0)) gx[0] = empty_like(v);
    if (gx.needs(1)) gx[1] = empty(v.size(1), accumulated(v.dtype()), v.device());
    run_planned<&RmsNormKernels::rms_norm_backward>(v.device(), {.x = v.read(),
                                                                 .weight = read(w),
                                                                 .rstd = rstd.get().read(),
                                                                 .gy = g.read(),
                                                                 .gx = write(gx[0]),
                                                                 .gw = write(gx[1])});
  }
  void backward(const Grads& gy, InputGrads& gx) override { grad_enabled() ? composed(gy[0], gx) : fused(gy[0], gx); }
};
static Tensor rms_norm_rows(const Tensor& x, const Tensor& weight, double eps) {
  const auto [y, rstd] = rms_norm_made(x, weight, eps);
  if (auto* node = record<RmsNormBackward>(y, x, weight)) {
    node->x.save(x);
    node->rstd.save(rstd);
    if (node->needs(0) || recomputing()) node->weight.save(weight);
    if (recomputing()) node->result_version = y.storage().version();
    node->eps = eps;
  }
  return y;
}

/// The epsilon of the dtype in which rows of x are accumulated.
static double epsilon_for(const Tensor& x) {
  const bool is_double = x.defined() && x.dtype() == DType::f64;
  return is_double ? std::numeric_limits<double>::epsilon() : double{std::numeric_limits<float>::epsilon()};
}

constexpr OpDefinition rms_norm_op{.name = "rms_norm",
                                   .inputs = {"x", "weight"},
                                   .attributes = {{"normalized_shape", integers}, {"eps", number}},
                                   .family = Family::rms_norm,
                                   .autocast = AutocastClass::f32};
Tensor rms_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& scale,
                std::optional<double> given_eps) {
  const double eps = given_eps ? *given_eps : epsilon_for(input);
  const Op<rms_norm_op> op(input, scale, normalized_shape, eps);
  const Tensor x = op.input(input), weight = op.input(scale);
  check_normalized(x, normalized_shape, eps);
  check_normalized(weight, "weight", x, normalized_shape);
  const DType dtype = coefficient_dtype(x, {&weight}, any_requires_grad({&x, &weight}));
  const NormalizedRows flat(x, normalized_shape, dtype);
  return op.result(view(rms_norm_rows(flat.rows(x), flat.row(weight), eps), x.shape()));
}

}  // namespace bytetape
