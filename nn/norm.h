#pragma once
#include <cstdint>
#include <optional>

#include "bytetape/autograd/ops/layer_norm.h"
#include "bytetape/core/activation.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

/// As the arguments of torch.nn.BatchNorm1d and torch.nn.BatchNorm2d.
struct BatchNormOptions {
  double eps = 1e-5;                ///< added to the variance
  double momentum = 0.1;            ///< how far a batch moves the running statistics towards its own
  bool affine = true;               ///< learn weight and bias
  bool track_running_stats = true;  ///< keep running_mean and running_var for evaluation; else it uses the batch's
};

/// What batch normalisation per channel has in any number of dims. weight starts at 1, bias at 0, running_mean at 0,
/// running_var at 1. The formula is at batch_norm().
class BatchNorm : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  using Module::operator();
  /// activation(forward(x)) as one op, the activation being none or relu.
  Tensor operator()(const Tensor& x, Activation activation);
  /// activation(forward(x) + residual) as one op; residual is like x.
  Tensor operator()(const Tensor& x, const Tensor& residual, Activation activation = Activation::none);
  std::string describe() const override { return detail::concat(kind_.name, "(", num_features_, ")"); }

  Parameter weight, bias;            ///< (num_features,); undefined unless affine
  Buffer running_mean, running_var;  ///< buffers (num_features,); undefined unless track_running_stats
  Buffer num_batches_tracked;        ///< buffer, an i64 scalar: batches seen in training; undefined likewise

 protected:
  /// What tells one from another: its name, and the inputs it takes, of ranks and in words.
  struct Kind {
    const char* name;
    int least_rank, most_rank;
    const char* expected;
  };
  BatchNorm(const Kind& kind, std::int64_t num_features, BatchNormOptions options);

 private:
  friend class BatchNormUpdate;
  Tensor normalise(const Tensor& x, const Tensor& residual, Activation activation);
  Tensor normalise_and_average(const Tensor& x, const Tensor& residual, Activation activation);
  Kind kind_;
  std::int64_t num_features_;
  BatchNormOptions options_;
  std::optional<std::int64_t> averaged_;  // in update_bn(), how many batches the running statistics are the average of
};

/// Batch normalisation of (n, num_features) or (n, num_features, l) per channel (torch.nn.BatchNorm1d).
class BatchNorm1d : public BatchNorm {
 public:
  /// Throws ValueError where num_features is not positive.
  explicit BatchNorm1d(std::int64_t num_features, BatchNormOptions options = {})
      : BatchNorm({"BatchNorm1d", 2, 3, "(n, c) or (n, c, l)"}, num_features, options) {}
  FusionRole fusion_role() const override;
};

/// Batch normalisation of (n, num_features, h, w) per channel (torch.nn.BatchNorm2d).
class BatchNorm2d : public BatchNorm {
 public:
  /// Throws ValueError where num_features is not positive.
  explicit BatchNorm2d(std::int64_t num_features, BatchNormOptions options = {})
      : BatchNorm({"BatchNorm2d", 4, 4, "(n, c, h, w)"}, num_features, options) {}
  FusionRole fusion_role() const override;
};

/// As the arguments of torch.nn.GroupNorm.
struct GroupNormOptions {
  double eps = 1e-5;   ///< added to the variance
  bool affine = true;  ///< learn weight and bias
};

/// Group normalisation of (n, num_channels, ...) over each of num_groups runs of adjacent channels
/// (torch.nn.GroupNorm). weight starts at 1, bias at 0. The formula is at group_norm().
class GroupNorm : public Module {
 public:
  /// Throws ValueError where a number is not positive, or num_groups does not divide num_channels.
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels, GroupNormOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return detail::concat("GroupNorm(", num_groups_, ", ", num_channels_, ")"); }

  Parameter weight, bias;  ///< (num_channels,); undefined unless affine

 private:
  std::int64_t num_groups_, num_channels_;
  double eps_;
};

/// As the arguments of torch.nn.LayerNorm.
struct LayerNormOptions {
  double eps = 1e-5;               ///< added to the variance
  bool elementwise_affine = true;  ///< learn weight and bias
  bool bias = true;                ///< whether there is one, if there is a weight
};

/// Layer normalisation of x (..., normalized_shape) over its last dims (torch.nn.LayerNorm). weight starts at 1, bias
/// at 0. The formula is at layer_norm().
class LayerNorm : public Module {
 public:
  /// Throws ValueError where normalized_shape is empty or has a size that is not positive.
  explicit LayerNorm(const Shape& normalized_shape, LayerNormOptions options = {});
  Tensor forward(const Tensor& x) override;
  using Module::operator();
  /// x + residual and forward(x + residual) as one op, add_layer_norm().
  AddLayerNorm operator()(const Tensor& x, const Tensor& residual);
  std::string describe() const override;

  Parameter weight, bias;  ///< normalized_shape; undefined where left out

 private:
  Shape normalized_shape_;
  double eps_;
};

}  // namespace bytetape::nn
