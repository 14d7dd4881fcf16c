#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace bytetape::data {

/// Selects the examples of an epoch and their order (torch.utils.data.Sampler).
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Returns the number of examples in an epoch.
  virtual std::int64_t size() const = 0;
  /// Returns the indices of the examples of an epoch. The result depends only on `epoch`.
  virtual std::vector<std::int64_t> order(std::uint64_t epoch) const = 0;
};

/// The indices 0, 1, ..., n - 1, in this order.
class SequentialSampler final : public Sampler {
 public:
  /// Throws ValueError if n is negative or above 2^40.
  explicit SequentialSampler(std::int64_t n);
  std::int64_t size() const override { return n_; }
  std::vector<std::int64_t> order(std::uint64_t epoch) const override;

 private:
  std::int64_t n_;
};

/// Options of a RandomSampler.
struct RandomSamplerOptions {
  bool replacement = false;                 ///< draw with replacement, so an example may be repeated in an epoch
  std::optional<std::int64_t> num_samples;  ///< examples in an epoch; default: all n
  std::uint64_t seed = 0;
};

/// Random indices below n, drawn anew in each epoch.
class RandomSampler final : public Sampler {
 public:
  /// Throws ValueError if n or num_samples is negative or above 2^40.
  /// Throws ValueError if num_samples is above n without replacement, or n is 0 and num_samples is not.
  explicit RandomSampler(std::int64_t n, const RandomSamplerOptions& options = {});
  std::int64_t size() const override { return options_.num_samples.value_or(n_); }
  std::vector<std::int64_t> order(std::uint64_t epoch) const override;

 private:
  std::int64_t n_;
  RandomSamplerOptions options_;
};

/// Options of a DistributedSampler.
struct DistributedSamplerOptions {
  int rank = 0, world_size = 1;  ///< of a dist::Group: rank() and size()
  bool shuffle = true;           ///< draw a new order in each epoch
  std::uint64_t seed = 0;        ///< the same on all ranks
  bool drop_last = false;        ///< leave out the last n % world_size examples, instead of repeating the first ones
};

/// One rank's share of n examples (torch.utils.data.DistributedSampler): every world_size-th one of an order that all
/// ranks have in common, beginning with number `rank`. All shares have the same size. Without drop_last, the first
/// examples of the order are repeated at its end where n is not a multiple of world_size.
class DistributedSampler final : public Sampler {
 public:
  /// Throws ValueError if n is negative or above 2^40, or `rank` is not below `world_size`.
  explicit DistributedSampler(std::int64_t n, const DistributedSamplerOptions& options);
  std::int64_t size() const override;
  std::vector<std::int64_t> order(std::uint64_t epoch) const override;

 private:
  std::int64_t n_;
  DistributedSamplerOptions options_;
};

/// The given indices, in a new random order in each epoch. Use it to split a dataset into training and validation.
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
