#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bytetape/core/random.h"
#include "bytetape/data/dataset.h"
#include "bytetape/data/loader.h"

namespace bytetape::data {

/// Copies a loader's batches from the host to its device.
class BatchCopier {
 public:
  /// Throws what the constructor of DataLoader throws for device, normalize and augment.
  BatchCopier(const Dataset& dataset, const DataLoaderOptions& options);

  /// Allocates a batch of n examples to load into, in pinned memory if the device supports it.
  Batch allocate(std::int64_t n) const;
  /// Returns true if copies overlap with the device's work. The next batch should then be sent before this one is used.
  bool works_ahead() const { return !loads_there_; }
  /// Starts the copy of a loaded batch to the device, on the stream for copies.
  Batch send(const Batch& loaded) const;
  /// Returns a sent batch, normalised and augmented.
  /// Orders the thread's current stream after the copy. `first` is the index in the epoch of the batch's first image,
  /// which selects its random numbers from `draws` on.
  Batch receive(const Batch& sent, const PhiloxState& draws, std::int64_t first) const;

 private:
  Batch augmented(const Batch& sent, const PhiloxState& state) const;

  const Dataset& dataset_;
  const Device device_;
  bool loads_there_;
  Augmentation augment_;
  bool moves_targets_ = false;      // augmentation moves the pixels of y with those of x
  std::vector<std::size_t> moved_;  // those of Batch::more whose pixels it moves too
  Tensor table_;                    // of normalize: the normalised value of each pixel value
};

}  // namespace bytetape::data
