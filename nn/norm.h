#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>

#include "bytetape/autograd/ops/norm/layer_norm.h"
#include "bytetape/core/activation.h"
#include "bytetape/nn/module.h"

namespace bytetape::nn {

/// The arguments of torch.nn.BatchNorm1d and torch.nn.BatchNorm2d.
struct BatchNormOptions {
  double eps = 1e-5;                ///< added to the variance
  double momentum = 0.1;            ///< weight of the batch in the update of the running statistics
  bool affine = true;               ///< whether the layer has weight and bias
  bool track_running_stats = true;  ///< keep running_mean and running_var; else evaluation uses the batch's
};

/// The arguments of a BatchNorm's batch_norm() in training.
struct BatchNormCall {
  Tensor x, weight, bias, running_mean, running_var;
  double momentum, eps;
  Activation activation;
  Tensor residual, num_batches_tracked;
};

/// Base class of BatchNorm1d and BatchNorm2d: batch normalisation per channel.
/// weight is initialised to 1, bias to 0, running_mean to 0, running_var to 1. batch_norm() has the formula.
class BatchNorm : public Module {
 public:
  Tensor forward(const Tensor& x) override;
  using Module::operator();
  /// Returns activation(forward(x)) as one op. `activation` must be none, relu or gelu_tanh.
  Tensor operator()(const Tensor& x, Activation activation);
  /// Returns activation(forward(x) + residual). gelu_tanh is an op of its own. `residual` is like x.
  Tensor operator()(const Tensor& x, const Tensor& residual, Activation activation = Activation::none);
  std::string describe() const override { return detail::concat(kind_.name, "(", num_features_, ")"); }
  /// Makes `f` compute the layer in training, in place of batch_norm(), for statistics of more than this batch
  /// (dist::sync_batch_norm). An empty function restores batch_norm().
  void set_training_function(std::function<Tensor(const BatchNormCall&)> f) { in_training_ = std::move(f); }

  Parameter weight, bias;            ///< (num_features,); undefined unless affine
  Buffer running_mean, running_var;  ///< buffers (num_features,); undefined unless track_running_stats
  Buffer num_batches_tracked;  ///< buffer, i64 scalar: number of training batches; undefined unless track_running_stats

 protected:
  /// The properties of a derived class: its name, and the ranks and description of its inputs.
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
  Tensor compute(const BatchNormCall& call) const;
  Kind kind_;
  std::int64_t num_features_;
  BatchNormOptions options_;
  std::function<Tensor(const BatchNormCall&)> in_training_;
  std::optional<std::int64_t> averaged_;  // in update_bn(): number of batches in the average of the running statistics
};

/// Batch normalisation of (n, num_features) or (n, num_features, l) per channel (torch.nn.BatchNorm1d).
class BatchNorm1d : public BatchNorm {
 public:
  /// Throws ValueError if num_features is not positive.
  explicit BatchNorm1d(std::int64_t num_features, BatchNormOptions options = {})
      : BatchNorm({"BatchNorm1d", 2, 3, "(n, c) or (n, c, l)"}, num_features, options) {}
  FusionRole fusion_role() const override;
};

/// Batch normalisation of (n, num_features, h, w) per channel (torch.nn.BatchNorm2d).
class BatchNorm2d : public BatchNorm {
 public:
  /// Throws ValueError if num_features is not positive.
  explicit BatchNorm2d(std::int64_t num_features, BatchNormOptions options = {})
      : BatchNorm({"BatchNorm2d", 4, 4, "(n, c, h, w)"}, num_features, options) {}
  FusionRole fusion_role() const override;
};

/// The arguments of torch.nn.GroupNorm.
struct GroupNormOptions {
  double eps = 1e-5;   ///< added to the variance
  bool affine = true;  ///< whether the layer has weight and bias
};

/// Group normalisation of x (n, num_channels, ...) (torch.nn.GroupNorm).
/// Each of num_groups groups of adjacent channels is normalised. weight is initialised to 1, bias to 0. group_norm()
/// has the formula.
class GroupNorm : public Module {
 public:
  /// Throws ValueError if a number is not positive, or num_groups does not divide num_channels.
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels, GroupNormOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return detail::concat("GroupNorm(", num_groups_, ", ", num_channels_, ")"); }

  Parameter weight, bias;  ///< (num_channels,); undefined unless affine

 protected:
  std::int64_t num_groups_, num_channels_;

 private:
  double eps_;
};

/// The arguments of torch.nn.InstanceNorm2d. There are no running statistics.
struct InstanceNormOptions {
  double eps = 1e-5;    ///< added to the variance
  bool affine = false;  ///< whether the layer has weight and bias
};

/// Normalisation of each channel of each image of x (n, num_features, h, w) (torch.nn.InstanceNorm2d).
/// It is a GroupNorm with a group for each channel.
class InstanceNorm2d : public GroupNorm {
 public:
  /// Throws ValueError if num_features is not positive.
  explicit InstanceNorm2d(std::int64_t num_features, InstanceNormOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;
};

/// The arguments of torch.nn.LayerNorm.
struct LayerNormOptions {
  double eps = 1e-5;               ///< added to the variance
  bool elementwise_affine = true;  ///< whether the layer has weight and bias
  bool bias = true;                ///< whether the layer has a bias, if it has a weight
};

/// Layer normalisation of x (..., normalized_shape) over its last dims (torch.nn.LayerNorm).
/// weight is initialised to 1, bias to 0. layer_norm() has the formula.
class LayerNorm : public Module {
 public:
  /// Throws ValueError if normalized_shape is empty or has a size that is not positive.
  explicit LayerNorm(const Shape& normalized_shape, LayerNormOptions options = {});
  /// The same for sizes in braces, and for one dim.
  explicit LayerNorm(std::initializer_list<std::int64_t> normalized_shape, LayerNormOptions options = {});
  explicit LayerNorm(std::int64_t normalized_size, LayerNormOptions options = {});
  Tensor forward(const Tensor& x) override;
  using Module::operator();
  /// Returns x + residual and forward(x + residual), computed as one op, add_layer_norm().
  AddLayerNorm operator()(const Tensor& x, const Tensor& residual);
  std::string describe() const override;

  Parameter weight, bias;  ///< of shape normalized_shape; undefined if left out

 private:
  Shape normalized_shape_;
  double eps_;
};

/// The arguments of torch.nn.RMSNorm.
struct RMSNormOptions {
  std::optional<double> eps = {};  ///< added to the mean square; the epsilon of the dtype unless set
  bool elementwise_affine = true;  ///< whether the layer has a weight
};

/// RMS normalisation of x (..., normalized_shape) over its last dims (torch.nn.RMSNorm).
/// weight is initialised to 1. rms_norm() has the formula.
class RMSNorm : public Module {
 public:
  /// Throws ValueError if normalized_shape is empty or has a size that is not positive.
  explicit RMSNorm(const Shape& normalized_shape, RMSNormOptions options = {});
  /// The same for sizes in braces, and for one dim.
  explicit RMSNorm(std::initializer_list<std::int64_t> normalized_shape, RMSNormOptions options = {});
  explicit RMSNorm(std::int64_t normalized_size, RMSNormOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

  Parameter weight;  ///< of shape normalized_shape; undefined if left out

 private:
  Shape normalized_shape_;
  std::optional<double> eps_;
};

}  // namespace bytetape::nn
