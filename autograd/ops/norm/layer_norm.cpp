#include "bytetape/autograd/ops/norm/layer_norm.h"

#include <optional>

#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/norm/normalized_rows.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/core/kernels/layer_norm.h"

namespace bytetape {

using enum AttributeType;

/// The normalised rows, the mean and 1 / standard deviation of each, and x + residual if that is what was normalised.
struct LayerNormed {
  Tensor y, sum, mean, rstd;
};
static LayerNormed layer_norm_made(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                                   double eps) {
  const LayerNormed made{.y = empty_like(x),
                         .sum = residual.defined() ? empty_like(residual) : Tensor(),
                         .mean = empty(x.size(0), accumulated(x.dtype()), x.device()),
                         .rstd = empty(x.size(0), accumulated(x.dtype()), x.device())};
  run<&LayerNormKernels::layer_norm>(
      x.device(), LayerNormArgs{x.read(), read(weight), read(bias), eps, made.y.write(), made.mean.write(),
                                made.rstd.write(), read(residual), write(made.sum)});
  return made;
}

/// The rule for x (rows, n). weight and bias (n) have the dtype in which rows are accumulated. With a residual (input
/// 3), the normalised tensor is the sum (output 1). x and y may then be 16-bit, and residual and sum f32.
struct LayerNormBackward final : Node {
  Saved normalised{this}, weight{this}, bias{this}, mean{this}, rstd{this};
  double eps = 0;
  DType dtype = DType::f32;                     // of x
  std::optional<std::uint32_t> result_version;  // if remake() has what it needs

  bool can_remake(const Tensor& y) const override {
    return normalised.is_intact() && y.storage().version() == result_version;
  }
  Tensor remake() const override {
    const Tensor v = normalised.get();
    const LayerNormed made = layer_norm_made(v, {}, weight.get(), bias.get(), eps);
    return to(made.y, dtype);
  }
  void composed(const Tensor& gy, InputGrads& gx) const {
    const Tensor v = to(normalised.get(), accumulated(gy.dtype())), g = to(gy, v.dtype()), w = weight.get();
    const auto row_mean = [](const Tensor& t) { return bytetape::mean(t, 1, true); };
    const Tensor centred = v - row_mean(v), r = rsqrt(row_mean(centred * centred) + eps), h = centred * r;
    const Tensor scaled = w.defined() ? g * w : g;
    if (needs_input(gx))
      gx[0] = to(r * (scaled - row_mean(scaled) - h * row_mean(scaled * h)), normalised.get().dtype());
    if (gx.needs(1)) gx[1] = sum(g * h, 0);
    if (gx.needs(2)) gx[2] = sum(g, 0);
  }
  /// Computes the gradients with one kernel. Adds gsum to the input's gradient if gsum is defined, and may overwrite
  /// gsum with the sum. Returns the gradient of x if its dtype is not that of the normalised tensor.
  Tensor fused(const Tensor& gy, const Tensor& gsum, InputGrads& gx) const {
    const bool over_gsum = gsum.defined() && gsum.is_contiguous() && may_overwrite(gsum);
    const Tensor v = normalised.get(), w = weight.get(), g = contiguous(gy),
                 addend = gsum.defined() && needs_input(gx) ? contiguous(gsum) : Tensor();
    if (needs_input(gx)) gx[0] = over_gsum ? gsum : empty_like(v);
    const Tensor narrow = dtype != v.dtype() && gx.needs(0) ? empty_like(v, dtype) : Tensor();
    for (const std::size_t i : {1, 2})
      if (gx.needs(i)) gx[i] = empty(v.size(1), accumulated(v.dtype()), v.device());
    run_planned<&LayerNormKernels::layer_norm_backward>(
        v.device(), {v.read(), read(w), mean.get().read(), rstd.get().read(), g.read(), write(gx[0]), write(gx[1]),
                     write(gx[2]), read(addend), write(narrow)});
    return narrow;
  }
  /// Passes gy, the gradient of y, and gsum on to all inputs but the residual. Returns what fused() does.
  Tensor through_norm(const Tensor& gy, const Tensor& gsum, InputGrads& gx) const {
    const bool needs_rows = needs_input(gx) || gx.needs(1);
    if (needs_rows && !grad_enabled()) return fused(gy, gsum, gx);
    if (needs_rows)
      composed(gy, gx);
    else  // only the bias needs a gradient
      gx[2] = sum(to(gy, accumulated(gy.dtype())), 0);
    if (gsum.defined() && gx[0].defined()) gx[0] = gx[0] + gsum;
    return {};
  }
  bool takes_undefined() const override { return true; }
  void backward(const Grads& gys, InputGrads& gx) override {
    const Tensor none;
    const Tensor& gsum = gys.size() > 1 ? gys[1] : none;  // another handle would prevent overwriting
    Tensor narrow;
    if (gys[0].defined())
      narrow = through_norm(gys[0], gsum, gx);
    else
      gx[0] = gsum;
    if (gx.needs(3)) gx[3] = gx[0];
    if (!gx.needs(0))
      gx[0] = Tensor();
    else if (gx[0].defined() && gx[0].dtype() != dtype)
      gx[0] = narrow.defined() ? narrow : to(gx[0], dtype);
  }

 private:
  static bool needs_input(const InputGrads& gx) { return gx.needs(0) || gx.needs(3); }
};
/// Whether the kernel reads x as it reads memory of ours, in vectors. Rows of a sum may otherwise be added in another
/// order than those of the stored sum, and have other bits.
static bool is_vector_aligned(const Tensor& x) {
  constexpr std::size_t vector_bytes = 16;
  return x.storage().is_ours() && static_cast<std::size_t>(x.storage_offset()) * size_of(x.dtype()) % vector_bytes == 0;
}

/// residual may be undefined. The sum is then undefined too.
static AddLayerNorm layer_norm_rows(const Tensor& x, const Tensor& residual, const Tensor& weight, const Tensor& bias,
                                    double eps) {
  const bool adds = residual.defined();
  const auto [y, sum, mean, rstd] = layer_norm_made(x, residual, weight, bias, eps);
  const Ref<LayerNormBackward> node =
      adds ? prepare<LayerNormBackward>(x, weight, bias, residual) : prepare<LayerNormBackward>(x, weight, bias);
  detail::note_result(y);
  if (!node) return {y, sum};
  detail::add_output(*node, y);
  if (adds) detail::add_output(*node, sum);
  const bool needs_input = node->needs(0) || node->needs(3);
  if (needs_input || node->needs(1)) {
    if (adds)
      node->normalised.save_output(sum, 1);
    else
      node->normalised.save(x);
    node->mean.save(mean);
    node->rstd.save(rstd);
  }
  if (needs_input || recomputing()) node->weight.save(weight);
  if (recomputing()) {
    node->bias.save(bias);
    if (!adds || (is_vector_aligned(x) && is_vector_aligned(residual))) node->result_version = y.storage().version();
  }
  node->eps = eps;
  node->dtype = x.dtype();
  return {y, sum};
}

/// Flattens x to rows and normalises them. x has the dtype in which it is normalised.
static AddLayerNorm normalise(const Tensor& x, const Tensor& residual, const Shape& normalized_shape,
                              const Tensor& weight, const Tensor& bias, double eps) {
  check_normalized(x, normalized_shape, eps);
  check_normalized(weight, "weight", x, normalized_shape);
  check_normalized(bias, "bias", x, normalized_shape);
  const bool is_recorded = any_requires_grad({&x, &residual, &weight, &bias});
  const NormalizedRows flat(x, normalized_shape, coefficient_dtype(x, {&weight, &bias}, is_recorded));
  const AddLayerNorm made = layer_norm_rows(flat.rows(x), flat.rows(residual), flat.row(weight), flat.row(bias), eps);
  return {view(made.y, x.shape()), made.sum.defined() ? view(made.sum, x.shape()) : made.sum};
}

constexpr OpDefinition layer_norm_op{.name = "layer_norm",
                                     .inputs = {"x", "weight", "bias"},
                                     .attributes = {{"normalized_shape", integers}, {"eps", number}},
                                     .family = Family::layer_norm,
                                     .autocast = AutocastClass::f32};
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, const Tensor& bias,
                  double eps) {
  const Op<layer_norm_op> op(x, weight, bias, normalized_shape, eps);
  return op.result(normalise(op.input(x), {}, normalized_shape, op.input(weight), op.input(bias), eps).y);
}

constexpr OpDefinition add_layer_norm_op{.name = "add_layer_norm",
                                         .inputs = {"x", "residual", "weight", "bias"},
                                         .outputs = {"y", "sum"},
                                         .attributes = {{"normalized_shape", integers}, {"eps", number}},
                                         .family = Family::layer_norm,
                                         .autocast = AutocastClass::f32};
/// Whether x stays 16-bit beside an f32 residual, as the results of linear layers are under Autocast.
static bool keeps_16_bits(const Tensor& x, const Tensor& residual) {
  return autocast_enabled() && x.defined() && residual.defined() && is_floating(x.dtype()) && size_of(x.dtype()) == 2 &&
         residual.dtype() == DType::f32;
}
/// The arguments as they are added. Checks that they fit together.
static std::pair<Tensor, Tensor> summands(const Op<add_layer_norm_op>& op, const Tensor& x, const Tensor& residual) {
  if (keeps_16_bits(x, residual)) {
    check_same_device(x, residual);
    check_residual_shape(residual, x);
    return {x, residual};
  }
  const auto pair = promoted_pair(op.input(x), op.input(residual));
  check_defined(pair.second, "the residual");
  check_residual(pair.second, pair.first);
  return pair;
}
AddLayerNorm add_layer_norm(const Tensor& input, const Tensor& added, const Shape& normalized_shape,
                            const Tensor& weight, const Tensor& bias, double eps) {
  const Op<add_layer_norm_op> op(input, added, weight, bias, normalized_shape, eps);
  const auto [x, residual] = summands(op, input, added);
  const AddLayerNorm made = normalise(x, residual, normalized_shape, op.input(weight), op.input(bias), eps);
  op.results({made.y, made.sum});
  return made;
}

}  // namespace bytetape
