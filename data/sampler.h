#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace bytetape::data {

/// Which examples an epoch has, and in which order (torch.utils.data.Sampler).
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Examples in an epoch.
  virtual std::int64_t size() const = 0;
  /// Their indices. The same epoch always has the same.
  virtual std::vector<std::int64_t> order(std::uint64_t epoch) const = 0;
};

/// 0, 1, ... n - 1.
class SequentialSampler final : public Sampler {
 public:
  /// Throws ValueError where n < 0, or n > 2^40.
  explicit SequentialSampler(std::int64_t n);
  std::int64_t size() const override { return n_; }
  std::vector<std::int64_t> order(std::uint64_t epoch) const override;

 private:
  std::int64_t n_;
};

/// How a RandomSampler draws.
struct RandomSamplerOptions {
  bool replacement = false;                 ///< an example may come again in an epoch
  std::optional<std::int64_t> num_samples;  ///< examples in an epoch; default: all n
  std::uint64_t seed = 0;
};

/// Indices below n, drawn anew in each epoch.
class RandomSampler final : public Sampler {
 public:
  /// Throws ValueError where n or num_samples is negative or above 2^40, or more are to be drawn than there are:
  /// without replacement more than n, with it any of none.
  explicit RandomSampler(std::int64_t n, const RandomSamplerOptions& options = {});
  std::int64_t size() const override { return options_.num_samples.value_or(n_); }
  std::vector<std::int64_t> order(std::uint64_t epoch) const override;

 private:
  std::int64_t n_;
  RandomSamplerOptions options_;
};

/// The given indices, in another order in each epoch: a part of a data set to train on, the rest for validation.
class SubsetRandomSampler final : public Sampler {
 public:
  explicit SubsetRandomSampler(std::vector<std::int64_t> indices, std::uint64_t seed = 0);
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  std::vector<std::int64_t> order(std::uint64_t epoch) const override;

 private:
  std::vector<std::int64_t> indices_;
  std::uint64_t seed_;
};

}  // namespace bytetape::data
