#include "bytetape/autograd/ops/norm.h"

#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/view.h"

namespace bytetape {
namespace {

/// x as the kernels see it: (n, c) is (n, c, 1, 1).
template <class V>
V as_image(V v) {
  while (v.rank() < 4) {
    v.shape.push_back(1);
    v.strides.push_back(1);
  }
  return v;
}

void check_per_channel(const Tensor& v, const char* name, const Tensor& x) {
  check_coefficient(v, name, x);
  check(!v.defined() || v.shape() == Shape{x.size(1)}, "expected a ", name, " for each of the ", x.size(1),
        " channels of ", describe(x), ", got ", describe(v));
}

/// What a batch adds to a running statistic; undefined where there is none to move.
Tensor share_of(const Tensor& batch, double share, const Tensor& running) {
  return running.defined() ? to(mul(batch, share), running.dtype()) : Tensor();
}
void move(Tensor running, double momentum, const Tensor& share) {
  if (!running.defined()) return;
  mul_(running, 1 - momentum);
  add_(running, share);
}

/// Before either is moved.
void check_can_move(const Tensor& x, const Tensor& running_mean, const Tensor& running_var) {
  const NoGrad no_grad;
  for (const Tensor* running : {&running_mean, &running_var})
    if (running->defined()) check_in_place(*running, {&x});
}

}  // namespace

struct BatchNormBackward final : Node {
  Saved x{this}, weight{this}, mean{this}, var{this};
  DType weight_dtype = DType::f32, bias_dtype = DType::f32;
  double eps = 0;
  bool training = false;

  /// Of statistics that are recorded with it: in training they depend on x.
  void composed(const Tensor& gy, InputGrads& gx) const {
    const DType wide = accumulated(gy.dtype());
    const Tensor v = to(x.get(), wide), g = to(gy, wide), w = weight.get();
    const bool is_image = v.rank() == 4;
    const Dims dims = is_image ? Dims{0, 2, 3} : Dims{0};
    const auto by_channel = [&](const Tensor& t) {
      return is_image ? view(to(t, wide), {v.size(1), 1, 1}) : to(t, wide);
    };
    const auto batch_mean = [&](const Tensor& t) { return bytetape::mean(t, dims, true); };
    const Tensor centred = v - (training ? batch_mean(v) : by_channel(mean.get()));
    const Tensor r = rsqrt((training ? batch_mean(centred * centred) : by_channel(var.get())) + eps), h = centred * r;
    if (gx.needs(1)) gx[1] = to(sum(g * h, dims), weight_dtype);
    if (gx.needs(2)) gx[2] = to(sum(g, dims), bias_dtype);
    if (!gx.needs(0)) return;
    const Tensor of_batch = training ? g - batch_mean(g) - h * batch_mean(g * h) : g;
    gx[0] = to((w.defined() ? by_channel(w) * r : r) * of_batch, gy.dtype());
  }
  void backward(const Grads& gy, InputGrads& gx) override {
    if (!gx.needs(0) && !gx.needs(1)) {  // the bias alone
      const Dims dims = gy[0].rank() == 4 ? Dims{0, 2, 3} : Dims{0};
      gx[2] = to(sum(to(gy[0], accumulated(gy[0].dtype())), dims), bias_dtype);
      return;
    }
    if (grad_enabled()) return composed(gy[0], gx);
    const Tensor input = x.get(), scale = weight.get();
    if (gx.needs(0)) gx[0] = empty_like(input);
    if (gx.needs(1)) gx[1] = empty({input.size(1)}, weight_dtype, input.device());
    if (gx.needs(2)) gx[2] = empty({input.size(1)}, bias_dtype, input.device());
    run_planned<&Kernels::batch_norm_backward>(
        input.device(),
        {as_image(input.read()), read(scale), mean.get().read(), var.get().read(), as_image(gy[0].read()), eps,
         training, gx.needs(0) ? as_image(gx[0].write()) : View(), write(gx[1]), write(gx[2])});
  }
};
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, bool training, double momentum, double eps) {
  const Op<"batch_norm"> op;
  check_floating(x);
  check(x.rank() == 2 || x.rank() == 4, "expected x (n, c) or (n, c, h, w), got ", describe(x));
  check_per_channel(weight, "weight", x);
  check_per_channel(bias, "bias", x);
  check_per_channel(running_mean, "running_mean", x);
  check_per_channel(running_var, "running_var", x);
  check<ValueError>(eps >= 0, "eps must not be negative, got ", eps);
  check<ValueError>(training || (running_mean.defined() && running_var.defined()),
                    "evaluation needs running_mean and running_var");
  const std::int64_t channels = x.size(1), count = channels == 0 ? 2 : x.numel() / channels;
  check<ValueError>(!training || count > 1, "training needs more than one value a channel, got ", describe(x));

  if (training) check_can_move(x, running_mean, running_var);
  const Ref<BatchNormBackward> node = prepare<BatchNormBackward>(x, weight, bias);

  const Device device = x.device();
  const ConstView image = as_image(x.read());
  Tensor mean = running_mean, var = running_var, mean_share, var_share;
  if (training) {
    mean = empty({channels}, accumulated(x.dtype()), device);
    var = empty_like(mean);
    run_planned<&Kernels::batch_norm_statistics>(device, {image, mean.write(), var.write()});
    const auto n = static_cast<double>(count);
    mean_share = share_of(mean, momentum, running_mean);
    var_share = share_of(var, momentum * (n / (n - 1)), running_var);  // unbiased
  }
  Tensor y = empty_like(x);
  run<&Kernels::batch_norm_apply>(device, image, read(weight), read(bias), mean.read(), var.read(), eps,
                                  as_image(y.write()));
  detail::check_anomaly(y);
  if (training) {  // last: what fails has moved nothing
    const NoGrad no_grad;
    move(running_mean, momentum, mean_share);
    move(running_var, momentum, var_share);
  }
  if (!node) return y;
  detail::add_output(*node, y);
  if (node->needs(0) || node->needs(1)) {
    node->x.save(x);
    node->mean.save(mean);
    node->var.save(var);
  }
  if (node->needs(0)) node->weight.save(weight);
  if (weight.defined()) node->weight_dtype = weight.dtype();
  if (bias.defined()) node->bias_dtype = bias.dtype();
  node->eps = eps;
  node->training = training;
  return y;
}

}  // namespace bytetape
