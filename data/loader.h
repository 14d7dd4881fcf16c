#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>

#include "bytetape/core/images/augmentation.h"
#include "bytetape/data/dataset.h"
#include "bytetape/data/position.h"
#include "bytetape/data/sampler.h"

namespace bytetape::data {

/// How a DataLoader goes through its dataset.
struct DataLoaderOptions {
  std::int64_t batch_size = 64;  ///< examples; the last batch of an epoch may have fewer
  bool shuffle = false;          ///< another order each epoch
  bool drop_last = false;        ///< leave out a last batch that is not full
  int workers = 1;               ///< threads that load; 0 loads on the thread that iterates, when the batch is wanted
  int prefetch = 2;              ///< batches loaded ahead of the one handed out, over all workers
  std::uint64_t seed = 0;        ///< of the shuffle and of augment
  /// Which examples, and in which order; without one, all, by `shuffle`.
  std::shared_ptr<const Sampler> sampler = {};
  /// Where batches are handed out: loaded on the CPU, they go there. On a meta device they cost what real ones cost,
  /// and nothing is loaded.
  Device device = default_device();
  /// Of u8 images (h, w) or (c, h, w): done where they are handed out, as f32 (c, h, w), channels-last, so that bytes
  /// are what travels. As ResidentImages do it.
  std::optional<Normalize> normalize = {};
  /// Of images (h, w) or (c, h, w), u8 or floating: done there too, in the same kernel where they are normalised. What
  /// becomes of an image depends on the seed, the epoch and its place in the order. Targets (h, w) or (k, h, w) of the
  /// images' size, such as segmentation masks, get the same crop and flip.
  Augmentation augment = {};
};

class BatchCopier;

/// The batches of a dataset, an epoch at a time (torch.utils.data.DataLoader):
///
///     DataLoader loader(dataset, {.batch_size = 128, .shuffle = true});
///     for (const auto& [x, y] : loader) ...
///
/// The order depends on the seed, or the sampler, and the epoch alone. To a GPU, batches go one ahead of the one handed
/// out, from pinned memory and on a stream of their own (Stream::for_copies()), beside the step before theirs. Batches
/// are allocated on the thread that iterates, so the ledger's events depend neither on the workers' number nor on their
/// pace. What a worker throws is rethrown, as it was thrown, where its batch would have been handed out. Leaving the
/// loop early stops and joins the workers.
class DataLoader {
 public:
  class Iterator;

  /// `dataset` must outlive the loader and its iterators. Throws ValueError unless batch_size >= 1, workers >= 0 and
  /// prefetch >= 1, or where there is a sampler and `shuffle` too; DeviceError where there is no such device; with
  /// options.normalize, where x is no image of u8, DTypeError or ShapeError; and with options.augment what
  /// augment_images() throws, and ValueError where crop or flip meets a y of two dims or more that is no image of x's
  /// size.
  explicit DataLoader(const Dataset& dataset, const DataLoaderOptions& options = {});
  explicit DataLoader(const Dataset&& dataset, const DataLoaderOptions& options = {}) = delete;

  /// Batches in an epoch.
  std::int64_t size() const;
  const DataLoaderOptions& options() const { return options_; }

  /// Starts the next epoch and loads its first batch. Where that throws, the next call starts the epoch after it.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }
  /// The next begin() starts `epoch`, from 0, behind its first `batch` batches, as one that went on would: where a run
  /// was interrupted. Throws ValueError where epoch < 0, and unless 0 <= batch <= size().
  void set_position(std::int64_t epoch, std::int64_t batch = 0);

 private:
  const Dataset* dataset_;
  DataLoaderOptions options_;
  std::shared_ptr<const Sampler> sampler_;  // of the options, or as they say
  std::shared_ptr<const BatchCopier> copier_;
  Position next_;
};

/// An input iterator: copies share their place in the epoch.
class DataLoader::Iterator {
 public:
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;

  const Batch& operator*() const { return batch_; }
  const Batch* operator->() const { return &batch_; }
  /// Lets the batch go, then waits for the next one. After an exception, the next call goes on behind it.
  Iterator& operator++();
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& it, std::default_sentinel_t) { return it.at_end_; }

 private:
  friend class DataLoader;
  class Epoch;
  explicit Iterator(std::shared_ptr<Epoch> epoch);

  std::shared_ptr<Epoch> epoch_;
  Batch batch_;
  bool at_end_ = false;
};

}  // namespace bytetape::data
