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

/// Options of a DataLoader.
struct DataLoaderOptions {
  std::int64_t batch_size = 64;  ///< examples; the last batch of an epoch may have fewer
  bool shuffle = false;          ///< a new random order each epoch
  bool drop_last = false;        ///< drop the last batch if it is not full
  int workers = 1;               ///< threads that load batches; 0 loads on the iterating thread, on demand
  int prefetch = 2;              ///< batches loaded ahead of the current one, by all workers together
  std::uint64_t seed = 0;        ///< seed of shuffle and augment
  /// Selects the examples and their order. Default: all examples, ordered according to `shuffle`.
  std::shared_ptr<const Sampler> sampler = {};
  /// Device of the batches, which are loaded on the CPU and copied there. On a meta device, batches are accounted like
  /// real ones and nothing is loaded.
  Device device = default_device();
  /// Normalises u8 images (h, w) or (c, h, w) to f32 (c, h, w), channels-last. Runs on `device`, so that bytes are
  /// copied, as ResidentImages does. Other tensors of a batch stay as they are.
  std::optional<Normalize> normalize = {};
  /// Augments images (h, w) or (c, h, w), u8 or floating, on `device`. Runs in the kernel that normalises, if there is
  /// one. The result depends on the seed, the epoch and the image's index in the order. Targets (h, w) or (k, h, w) of
  /// the images' size, such as segmentation masks, get the same crop and flip, and so do fields with
  /// Field::moves_with_x. Other tensors, such as boxes, stay as they are.
  Augmentation augment = {};
};

class BatchCopier;

/// Iterates over the batches of a dataset, one epoch at a time (torch.utils.data.DataLoader).
///
///     DataLoader loader(dataset, {.batch_size = 128, .shuffle = true});
///     for (const auto& [x, y] : loader) ...
///
/// The order depends only on the seed, or the sampler, and the epoch. On a GPU, the next batch is copied from pinned
/// memory, on its own stream (Stream::for_copies()), while the current step runs. The iterating thread allocates the
/// batches, so the ledger's events do not depend on the number or timing of workers. An exception from a worker is
/// rethrown when its batch is due. Leaving the loop early stops and joins the workers.
class DataLoader {
 public:
  class Iterator;

  /// `dataset` must outlive the loader and its iterators.
  /// Throws ValueError unless batch_size >= 1, workers >= 0 and prefetch >= 1.
  /// Throws ValueError if a sampler is given and `shuffle` is true.
  /// Throws DeviceError if the device does not exist.
  /// Throws DTypeError or ShapeError if options.normalize is given and x is not a u8 image.
  /// Throws what augment_images() throws, if options.augment is given.
  /// Throws ValueError if crop or flip is on and y has two dims or more but is not an image of x's size.
  /// Throws ValueError if crop or flip is on and a field that moves with x is not an image of x's size.
  /// Throws ValueError if the name of a further field is empty, "x" or "y", or that of two fields.
  explicit DataLoader(const Dataset& dataset, const DataLoaderOptions& options = {});
  explicit DataLoader(const Dataset&& dataset, const DataLoaderOptions& options = {}) = delete;

  /// Returns the number of batches in an epoch.
  std::int64_t size() const;
  const DataLoaderOptions& options() const { return options_; }

  /// Starts the next epoch and loads its first batch. If that throws, the next call starts the epoch after it.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }
  /// Makes the next begin() start at batch number `batch` of `epoch`, both from 0, as if earlier batches had been
  /// loaded. Use it to resume an interrupted run.
  /// Throws ValueError if epoch is negative or at least 2^22, or batch is not in 0 .. size().
  void set_position(std::int64_t epoch, std::int64_t batch = 0);

 private:
  const Dataset* dataset_;
  DataLoaderOptions options_;
  std::shared_ptr<const Sampler> sampler_;  // options_.sampler, or the one for options_.shuffle
  std::shared_ptr<const BatchCopier> copier_;
  Position next_;
};

/// Input iterator over the batches of an epoch. Copies share their position.
class DataLoader::Iterator {
 public:
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;

  const Batch& operator*() const { return batch_; }
  const Batch* operator->() const { return &batch_; }
  /// Releases the batch, then waits for the next one. After an exception, the next call continues with the batch after
  /// it.
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
