#include "bytetape/nn/norm.h"

#include <algorithm>

#include "bytetape/autograd/checkpoint_frame.h"
#include "bytetape/autograd/ops/copy.h"
#include "bytetape/autograd/ops/norm/batch_norm.h"
#include "bytetape/autograd/ops/norm/group_norm.h"
#include "bytetape/autograd/ops/norm/rms_norm.h"
#include "bytetape/core/factories.h"
#include "bytetape/core/kernels/batch_norm.h"
#include "bytetape/nn/call.h"
#include "bytetape/nn/fusion.h"
#include "bytetape/nn/init.h"

namespace bytetape::nn {

BatchNorm::BatchNorm(const Kind& kind, std::int64_t num_features, BatchNormOptions options)
    : kind_(kind), num_features_(num_features), options_(options) {
  check<ValueError>(num_features > 0, kind.name, " needs a positive number of features, got ", num_features);
  if (options.affine) {
    weight = register_parameter("weight", Shape{num_features});
    bias = register_parameter("bias", Shape{num_features});
    init::constant_(weight, 1);
    init::constant_(bias, 0);
  }
  if (options.track_running_stats) {
    running_mean = register_buffer("running_mean", zeros(num_features));
    running_var = register_buffer("running_var", ones(num_features));
    num_batches_tracked = register_buffer("num_batches_tracked", zeros({}, DType::i64));
  }
}

Tensor BatchNorm::normalise(const Tensor& x, const Tensor& residual, Activation activation) {
  check(x.defined() && x.rank() >= kind_.least_rank && x.rank() <= kind_.most_rank, kind_.name, " expects ",
        kind_.expected, " with c = ", num_features_, ", got ", bytetape::describe(x));
  const bool use_batch = is_training() || !options_.track_running_stats;
  const bool is_counted = bytetape::detail::runs_again();  // the first run of the checkpoint counted the batch
  if (use_batch && averaged_ && !is_counted) return normalise_and_average(x, residual, activation);
  if (!use_batch)
    return batch_norm(x, weight, bias, running_mean, running_var, false, options_.momentum, options_.eps, activation,
                      residual);
  return compute({x, weight, bias, running_mean, running_var, options_.momentum, options_.eps, activation, residual,
                  num_batches_tracked});
}

/// Normalises with the statistics of the batch.
Tensor BatchNorm::compute(const BatchNormCall& c) const {
  if (in_training_ && is_training()) return in_training_(c);
  return batch_norm(c.x, c.weight, c.bias, c.running_mean, c.running_var, true, c.momentum, c.eps, c.activation,
                    c.residual, c.num_batches_tracked);
}

// The first batch writes to new tensors. If it throws, the old statistics remain. NaNs in the old statistics have no
// effect.
Tensor BatchNorm::normalise_and_average(const Tensor& x, const Tensor& residual, Activation activation) {
  const auto start = [&](const Tensor& statistic) { return *averaged_ == 0 ? zeros_like(statistic) : statistic; };
  const Tensor mean = start(running_mean), var = start(running_var), batches = start(num_batches_tracked);
  const double momentum = 1 / static_cast<double>(*averaged_ + 1);
  const Tensor y = compute({x, weight, bias, mean, var, momentum, options_.eps, activation, residual, batches});
  if ((*averaged_)++ > 0) return y;
  copy_(running_mean, mean);
  copy_(running_var, var);
  copy_(num_batches_tracked, batches);
  return y;
}

Tensor BatchNorm::forward(const Tensor& x) { return normalise(x, {}, Activation::none); }

Tensor BatchNorm::operator()(const Tensor& x, Activation activation) {
  return call(
      *this, [this, activation](const Tensor& x) { return normalise(x, {}, activation); }, x);
}

Tensor BatchNorm::operator()(const Tensor& x, const Tensor& residual, Activation activation) {
  const auto body = [this, activation](const Tensor& x, const Tensor& residual) {
    return normalise(x, residual, activation);
  };
  return call(*this, body, x, residual);
}

FusionRole BatchNorm1d::fusion_role() const { return FusionRole::for_layer(*this, BatchNormKernels::epilogues); }
FusionRole BatchNorm2d::fusion_role() const { return FusionRole::for_layer(*this, BatchNormKernels::epilogues); }

GroupNorm::GroupNorm(std::int64_t num_groups, std::int64_t num_channels, GroupNormOptions options)
    : num_groups_(num_groups), num_channels_(num_channels), eps_(options.eps) {
  check<ValueError>(num_groups > 0 && num_channels > 0 && num_channels % num_groups == 0,
                    "GroupNorm needs a positive number of groups that divides its channels, got ", num_groups, " and ",
                    num_channels);
  if (!options.affine) return;
  weight = register_parameter("weight", ones(num_channels));
  bias = register_parameter("bias", zeros(num_channels));
}

Tensor GroupNorm::forward(const Tensor& x) {
  check(x.defined() && x.rank() >= 2 && x.size(1) == num_channels_, "GroupNorm expects (n, ", num_channels_,
        ", ...), got ", bytetape::describe(x));
  return group_norm(x, num_groups_, weight, bias, eps_);
}

static std::int64_t checked_features(std::int64_t num_features) {
  check<ValueError>(num_features > 0, "InstanceNorm2d needs a positive number of features, got ", num_features);
  return num_features;
}

InstanceNorm2d::InstanceNorm2d(std::int64_t num_features, InstanceNormOptions options)
    : GroupNorm(checked_features(num_features), num_features, {.eps = options.eps, .affine = options.affine}) {}

Tensor InstanceNorm2d::forward(const Tensor& x) {
  check(x.defined() && x.rank() == 4 && x.size(1) == num_channels_, "InstanceNorm2d expects (n, ", num_channels_,
        ", h, w), got ", bytetape::describe(x));
  return GroupNorm::forward(x);
}

std::string InstanceNorm2d::describe() const { return detail::concat("InstanceNorm2d(", num_channels_, ")"); }

static void check_sizes(const char* name, const Shape& shape) {
  const bool is_positive = std::all_of(shape.begin(), shape.end(), [](auto n) { return n > 0; });
  check<ValueError>(!shape.empty() && is_positive, name, " needs positive sizes, got ", shape);
}

LayerNorm::LayerNorm(const Shape& normalized_shape, LayerNormOptions options)
    : normalized_shape_(normalized_shape), eps_(options.eps) {
  check_sizes("LayerNorm", normalized_shape);
  if (!options.elementwise_affine) return;
  weight = register_parameter("weight", ones(normalized_shape));
  if (options.bias) bias = register_parameter("bias", zeros(normalized_shape));
}

LayerNorm::LayerNorm(std::initializer_list<std::int64_t> normalized_shape, LayerNormOptions options)
    : LayerNorm(Shape(normalized_shape), options) {}

LayerNorm::LayerNorm(std::int64_t normalized_size, LayerNormOptions options) : LayerNorm({normalized_size}, options) {}

Tensor LayerNorm::forward(const Tensor& x) { return layer_norm(x, normalized_shape_, weight, bias, eps_); }

AddLayerNorm LayerNorm::operator()(const Tensor& x, const Tensor& residual) {
  const auto body = [this](const Tensor& x, const Tensor& residual) {
    const auto [y, sum] = add_layer_norm(x, residual, normalized_shape_, weight, bias, eps_);
    return std::pair(y, sum);
  };
  const auto [y, sum] = call(*this, body, x, residual);
  return {y, sum};
}

std::string LayerNorm::describe() const { return detail::concat("LayerNorm(", normalized_shape_, ")"); }

RMSNorm::RMSNorm(const Shape& normalized_shape, RMSNormOptions options)
    : normalized_shape_(normalized_shape), eps_(options.eps) {
  check_sizes("RMSNorm", normalized_shape);
  if (options.elementwise_affine) weight = register_parameter("weight", ones(normalized_shape));
}

RMSNorm::RMSNorm(std::initializer_list<std::int64_t> normalized_shape, RMSNormOptions options)
    : RMSNorm(Shape(normalized_shape), options) {}

RMSNorm::RMSNorm(std::int64_t normalized_size, RMSNormOptions options) : RMSNorm({normalized_size}, options) {}

Tensor RMSNorm::forward(const Tensor& x) { return rms_norm(x, normalized_shape_, weight, eps_); }

std::string RMSNorm::describe() const { return detail::concat("RMSNorm(", normalized_shape_, ")"); }

}  // namespace bytetape::nn
