#include "bytetape/autograd/ops/norm/batch_norm.h"

#include <cmath>

#include "bytetape/autograd/checkpoint_frame.h"
#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/activation.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/core/kernels/batch_norm.h"

namespace bytetape {

using enum AttributeType;

namespace {

/// Returns the 4-D view that the kernels take: (n, c) becomes (n, c, 1, 1), and (n, c, l) becomes (n, c, 1, l).
template <class V>
V as_image(V v) {
  while (v.defined() && v.rank() < 4) {
    const bool has_length = v.rank() == 3;
    v.strides.insert(2, has_length ? v.shape[2] * v.strides[2] : 1);
    v.shape.insert(2, 1);
  }
  return v;
}
ConstView read_image(const Tensor& x) { return as_image(read(x)); }
View write_image(const Tensor& x) { return as_image(write(x)); }

void check_per_channel(const Tensor& v, const char* name, const Tensor& x) {
  check_coefficient(v, name, x);
  check(!v.defined() || v.shape() == Shape{x.size(1)}, "expected a ", name, " for each of the ", x.size(1),
        " channels of ", describe(x), ", got ", describe(v));
}

void check_counter(const Tensor& batches, const Tensor& x) {
  if (!batches.defined()) return;
  check<DeviceError>(batches.device() == x.device(),
                     "num_batches_tracked is on another device than x: ", describe(batches), " and ", describe(x));
  check<DTypeError>(batches.dtype() == DType::i64, "expected num_batches_tracked in i64, got ", describe(batches));
  check(batches.rank() == 0, "expected num_batches_tracked, a scalar, got ", describe(batches));
}

/// The running statistics, which training updates.
struct Running {
  const Tensor &mean, &var, &batches;

  void check_can_move(const Tensor& x) const {
    const NoGrad no_grad;
    for (const Tensor* t : {&mean, &var, &batches})
      if (t->defined()) check_in_place(*t, {&x});
  }
  void note_moved() const {
    for (const Tensor* t : {&mean, &var, &batches})
      if (t->defined()) t->storage().bump_version();
  }
};

}  // namespace

struct BatchNormBackward final : Node {
  Saved x{this}, weight{this}, bias{this}, mean{this}, var{this}, y{this};
  DType weight_dtype = DType::f32, bias_dtype = DType::f32;
  double eps = 0;
  bool training = false, follows_from_x = false;
  std::uint32_t result_version = 0;
  Activation activation = Activation::none;

  bool can_remake(const Tensor& result) const override {
    return follows_from_x && x.is_intact() && result.storage().version() == result_version;
  }
  /// Returns activation(bn(x)).
  Tensor remake() const override {
    const Tensor input = x.get(), made = empty_like(input);
    run<&BatchNormKernels::batch_norm_apply>(input.device(), BatchNormApplyArgs{read_image(input),
                                                                                read(weight.get()),
                                                                                read(bias.get()),
                                                                                mean.get().read(),
                                                                                var.get().read(),
                                                                                {},
                                                                                eps,
                                                                                activation,
                                                                                write_image(made)});
    return made;
  }
  /// Computes the gradients with differentiable ops. In training mean and variance are recomputed from x, because they
  /// depend on x.
  void composed(const Tensor& gy, InputGrads& gx) const {
    const DType wide = accumulated(gy.dtype());
    Dims dims{0};  // all but the channels
    Shape by_channel_shape{gy.size(1)};
    for (int d = 2; d < gy.rank(); ++d) {
      dims.push_back(d);
      by_channel_shape.push_back(1);
    }
    const bool is_gelu = activation == Activation::gelu_tanh;
    Tensor w, shift;  // only if they are needed, because get() throws if they were overwritten
    if (is_gelu || gx.needs(0)) w = weight.get();
    if (is_gelu) shift = bias.get();
    const auto by_channel = [&](const Tensor& t) { return view(to(t, wide), by_channel_shape); };
    const auto batch_mean = [&](const Tensor& t) { return bytetape::mean(t, dims, true); };
    Tensor r, h;  // h = (x - mean) r
    if (is_gelu || gx.needs(0) || gx.needs(1)) {
      const Tensor v = to(x.get(), wide), centred = v - (training ? batch_mean(v) : by_channel(mean.get()));
      r = rsqrt((training ? batch_mean(centred * centred) : by_channel(var.get())) + eps);
      h = centred * r;
    }
    Tensor passed;
    if (is_gelu) {  // its slope depends on bn(x)
      const Tensor scaled = w.defined() ? h * by_channel(w) : h;
      passed =
          through_activation(activation, to(shift.defined() ? scaled + by_channel(shift) : scaled, gy.dtype()), gy);
    } else {
      passed = through_activation(activation, follows_from_x ? remake() : y.get(), gy);
    }
    const Tensor g = to(passed, wide);
    if (gx.needs(2)) gx[2] = to(sum(g, dims), bias_dtype);
    if (gx.needs(3)) gx[3] = passed;
    if (gx.needs(1)) gx[1] = to(sum(g * h, dims), weight_dtype);
    if (!gx.needs(0)) return;
    const Tensor of_batch = training ? g - batch_mean(g) - h * batch_mean(g * h) : g;
    gx[0] = to((w.defined() ? by_channel(w) * r : r) * of_batch, gy.dtype());
  }
  void fused(const Tensor& gy, InputGrads& gx) const {
    const Tensor input = x.get(), scale = weight.get(), shift = bias.get(), result = y.get(), &addend = gx.addend();
    const bool is_gelu = activation == Activation::gelu_tanh;
    Tensor masked;
    if (is_gelu) masked = empty_like(input);
    if (gx.needs(0)) gx[0] = is_gelu ? masked : empty_like(input);
    if (gx.needs(1)) gx[1] = empty({input.size(1)}, weight_dtype, input.device());
    if (gx.needs(2)) gx[2] = empty({input.size(1)}, bias_dtype, input.device());
    const auto lends = [&](const Tensor& g) {
      return may_overwrite(g) && same_layout(g.shape(), g.strides(), input.strides());
    };
    if (result.defined() || addend.defined())
      masked = lends(gy) ? gy : addend.defined() && lends(addend) ? addend : empty_like(input);
    run_planned<&BatchNormKernels::batch_norm_backward>(
        input.device(), {read_image(input), read(scale), read(shift), mean.get().read(), var.get().read(),
                         read_image(result), read_image(gy), eps, training, activation, write_image(masked),
                         write_image(gx[0]), write(gx[1]), write(gx[2]), read_image(addend)});
    if (gx.needs(3)) gx[3] = masked.defined() ? masked : gy;
  }
  bool takes_addend() const override { return activation == Activation::relu; }
  void backward(const Grads& gy, InputGrads& gx) override {
    if (grad_enabled() || (!gx.needs(0) && !gx.needs(1)))
      composed(gx.addend().defined() ? gy[0] + gx.addend() : gy[0], gx);
    else
      fused(gy[0], gx);
  }
};
constexpr OpDefinition batch_norm_op{
    .name = "batch_norm",
    .inputs = {"x", "weight", "bias", "running_mean", "running_var", "residual", "num_batches_tracked"},
    .attributes = {{"training", boolean}, {"momentum", number}, {"eps", number}, {"activation", text}},
    .family = Family::batch_norm,
    .autocast = AutocastClass::widest,
    .writes = {"running_mean", "running_var", "num_batches_tracked"}};
Tensor batch_norm(const Tensor& input, const Tensor& scale, const Tensor& shift, const Tensor& running_mean,
                  const Tensor& running_var, bool training, double momentum, double eps, Activation activation,
                  const Tensor& added, const Tensor& num_batches_tracked) {
  if (training && (running_mean.defined() || num_batches_tracked.defined()) && detail::runs_again())  // already updated
    return batch_norm(input, scale, shift, {}, {}, true, momentum, eps, activation, added, {});
  if (activation == Activation::gelu_tanh && added.defined())  // no kernel has the slope of a sum
    return gelu(batch_norm(input, scale, shift, running_mean, running_var, training, momentum, eps, Activation::none,
                           added, num_batches_tracked),
                Approximate::tanh);
  const Op<batch_norm_op> op(input, scale, shift, running_mean, running_var, added, num_batches_tracked, training,
                             momentum, eps, activation);
  const auto [x, residual] = promoted_pair(input, added);
  const auto fitting = [&, dtype = x.defined() ? x.dtype() : DType::f32](const Tensor& v) {
    return v.defined() && v.dtype() != dtype ? widened(v) : v;
  };
  const Tensor weight = fitting(scale), bias = fitting(shift);
  check_floating(x);
  check(x.rank() >= 2 && x.rank() <= 4, "expected x (n, c), (n, c, l) or (n, c, h, w), got ", describe(x));
  check_per_channel(weight, "weight", x);
  check_per_channel(bias, "bias", x);
  check_per_channel(running_mean, "running_mean", x);
  check_per_channel(running_var, "running_var", x);
  check_residual(residual, x);
  check_counter(num_batches_tracked, x);
  check_epilogue<BatchNormKernels>(activation);
  check<ValueError>(eps >= 0, "eps must not be negative, got ", eps);
  check<ValueError>(std::isfinite(momentum), "momentum must be finite, got ", momentum);
  check<ValueError>(training || (running_mean.defined() && running_var.defined()),
                    "evaluation needs running_mean and running_var");
  const std::int64_t channels = x.size(1), count = channels == 0 ? 2 : x.numel() / channels;
  check<ValueError>(!training || count > 1, "training needs more than one value a channel, got ", describe(x));

  const Running running{running_mean, running_var, num_batches_tracked};
  if (training) running.check_can_move(x);
  const Ref<BatchNormBackward> node = prepare<BatchNormBackward>(x, weight, bias, residual);

  const Device device = x.device();
  Tensor y = empty_like(x), mean = running_mean, var = running_var;
  if (training) {
    mean = empty({channels}, accumulated(x.dtype()), device);
    var = empty_like(mean);
  }
  const BatchNormApplyArgs result{read_image(x),        read(weight), read(bias), mean.read(),   var.read(),
                                  read_image(residual), eps,          activation, write_image(y)};
  if (training) {
    run_planned<&BatchNormKernels::batch_norm_train>(
        device, {{read_image(x), mean.write(), var.write(), momentum, write(running_mean), write(running_var),
                  write(num_batches_tracked)},
                 result});
    running.note_moved();
  } else {
    run<&BatchNormKernels::batch_norm_apply>(device, result);
  }
  detail::note_result(y);
  if (!node) return y;
  detail::add_output(*node, y);

  const bool activates = activation != Activation::none, is_gelu = activation == Activation::gelu_tanh;
  const bool needs_x = node->needs(0) || node->needs(1) || is_gelu;
  const bool keeps_y = activates && (residual.defined() || !needs_x);  // else the activation's gradient follows from x
  if (needs_x) {
    node->x.save(x);
    node->mean.save(mean);
    node->var.save(var);
  }
  if (node->needs(0) || (activates && !keeps_y)) node->weight.save(weight);
  if (activates && !keeps_y) node->bias.save(bias);
  if (keeps_y) node->y.save_output(y);
  node->follows_from_x = activates && !keeps_y;
  node->result_version = y.storage().version();
  if (weight.defined()) node->weight_dtype = weight.dtype();
  if (bias.defined()) node->bias_dtype = bias.dtype();
  node->eps = eps;
  node->training = training;
  node->activation = activation;
  return y;
}

}  // namespace bytetape
