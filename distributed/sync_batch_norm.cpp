// Forward joins the ranks' means and sums of squares by the formula of Chan, Golub & LeVeque, "Updating formulae and a
// pairwise algorithm for computing sample variances", 1979. Backward sums the gradients of bias and weight over the
// ranks, from which the gradient of x follows as in batch_norm().
#include "bytetape/distributed/sync_batch_norm.h"

#include <optional>

#include "bytetape/autograd/checkpoint_frame.h"
#include "bytetape/autograd/grad_mode.h"
#include "bytetape/autograd/op.h"
#include "bytetape/autograd/ops/activation.h"
#include "bytetape/autograd/ops/arithmetic.h"
#include "bytetape/autograd/ops/compare.h"
#include "bytetape/autograd/ops/concat.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/norm/batch_norm.h"
#include "bytetape/autograd/ops/pointwise.h"
#include "bytetape/autograd/ops/reduce.h"
#include "bytetape/autograd/ops/view.h"
#include "bytetape/distributed/collectives.h"
#include "bytetape/nn/norm.h"

namespace bytetape::dist {
namespace {

/// The dims of x that are not channels.
Dims dims_of_values(const Tensor& x) {
  Dims dims{0};
  for (int dim = 2; dim < x.rank(); ++dim) dims.push_back(dim);
  return dims;
}
/// Returns a tensor of channels with the rank of x.
Tensor as_channels(const Tensor& c, const Tensor& x) {
  Shape shape = Shape::filled(x.rank(), 1);
  shape[1] = c.numel();
  return reshape(c, shape);
}

/// The statistics of all ranks' batches, in the dtype of sums.
struct Statistics {
  Tensor count;      // of values in a channel, a scalar
  Tensor mean, var;  // (c); var is the biased variance
};

Statistics statistics_of(const Tensor& x, const Group& group) {
  const Dims dims = dims_of_values(x);
  const std::int64_t channels = x.size(1), count = channels == 0 ? 0 : x.numel() / channels;
  const Tensor n = full({1}, static_cast<double>(count), x.dtype(), x.device());
  const Tensor own_mean = count == 0 ? zeros({channels}, x.dtype(), x.device()) : mean(x, dims);
  const Tensor squares = count == 0 ? zeros_like(own_mean) : var(x, dims, false, 0) * static_cast<double>(count);
  const Tensor all = reshape(all_gather(cat({n, own_mean, squares}, 0), group), {group.size(), 1 + 2 * channels});
  const Tensor counts = narrow(all, 1, 0, 1), means = narrow(all, 1, 1, channels);
  const Tensor total = sum(counts);
  const Tensor joined = sum(means * counts, {0}) / total;
  const Tensor apart = means - joined;
  return {total, joined, (sum(narrow(all, 1, 1 + channels, channels), {0}) + sum(apart * apart * counts, {0})) / total};
}

/// Moves the running statistics towards those of the batches.
void update(const nn::BatchNormCall& c, const Statistics& s) {
  if (bytetape::detail::runs_again()) return;  // the first run of a checkpoint did it
  const auto move = [&](const Tensor& running, const Tensor& value) {
    if (!running.defined()) return;
    const Tensor moved = running * (1 - c.momentum) + to(value, running.dtype()) * c.momentum;
    copy_(running, where(s.count > 1, moved, running));
  };
  move(c.running_mean, s.mean);
  move(c.running_var, s.var * (s.count / (s.count - 1)));
  if (c.num_batches_tracked.defined()) add_(c.num_batches_tracked, 1);
}

struct SyncBatchNormBackward final : Node {
  Saved x{this}, weight{this}, mean{this}, rstd{this}, count{this}, y{this};
  std::optional<Group> group;
  Activation activation = Activation::none;
  bool differentiable() const override { return false; }

  void backward(const Grads& gy, InputGrads& gx) override {
    const Tensor in = x.take(gx), scale = weight.take(gx), factor = rstd.take(gx);
    const DType dtype = factor.dtype();
    const Tensor g = activation == Activation::relu ? where(y.take(gx) > 0, gy[0], 0) : gy[0];
    if (gx.needs(3)) gx[3] = g;
    const Tensor wide = to(g, dtype);
    const Tensor normalised = (to(in, dtype) - as_channels(mean.take(gx), in)) * as_channels(factor, in);
    const Dims dims = dims_of_values(in);
    const Tensor g_bias = sum(wide, dims), g_weight = sum(wide * normalised, dims);
    if (gx.needs(1)) gx[1] = to(g_weight, scale.dtype());
    if (gx.needs(2)) gx[2] = to(g_bias, scale.dtype());
    const Tensor both = all_reduce(stack({g_bias, g_weight}, 0), *group) / count.take(gx);
    if (!gx.needs(0)) return;
    const Tensor slope = scale.defined() ? to(scale, dtype) * factor : factor;
    const Tensor centred = wide - as_channels(both[0], in) - normalised * as_channels(both[1], in);
    gx[0] = to(centred * as_channels(slope, in), in.dtype());
  }
};

constexpr OpDefinition sync_batch_norm_def{.name = "sync_batch_norm",
                                           .inputs = {"x", "weight", "bias", "residual"},
                                           .family = Family::batch_norm,
                                           .autocast = AutocastClass::widest};

Tensor normalise(const nn::BatchNormCall& c, const Group& group) {
  if (c.activation == Activation::gelu_tanh) {
    nn::BatchNormCall plain = c;
    plain.activation = Activation::none;
    return gelu(normalise(plain, group), Approximate::tanh);
  }
  const Op<sync_batch_norm_def> op(c.x, c.weight, c.bias, c.residual);
  const auto [x, residual] = promoted_pair(c.x, c.residual);
  check_floating(x);
  Statistics s;
  Tensor y;
  {
    const NoGrad no_grad;
    s = statistics_of(to(x, accumulated(x.dtype())), group);
    y = batch_norm(x, c.weight, c.bias, s.mean, s.var, false, c.momentum, c.eps, c.activation, residual);
    update(c, s);
  }
  if (auto* const node = record<SyncBatchNormBackward>(y, x, c.weight, c.bias, residual)) {
    const NoGrad no_grad;
    node->x.save(x);
    if (c.weight.defined()) node->weight.save(c.weight);
    node->mean.save(s.mean);
    node->rstd.save(rsqrt(s.var + c.eps));
    node->count.save(s.count);
    if (c.activation == Activation::relu) node->y.save_output(y);
    node->group = group;
    node->activation = c.activation;
  }
  return y;
}

}  // namespace

void sync_batch_norm(nn::Module& module, const Group& group) {
  if (group.size() == 1) return;
  for (const auto& [path, m] : module.named_modules())
    if (auto* const norm = dynamic_cast<nn::BatchNorm*>(m))
      norm->set_training_function([group](const nn::BatchNormCall& c) { return normalise(c, group); });
}

}  // namespace bytetape::dist
