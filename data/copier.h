#pragma once
#include <cstdint>

#include "bytetape/core/random.h"
#include "bytetape/data/dataset.h"
#include "bytetape/data/loader.h"

namespace bytetape::data {

/// Brings a loader's batches from where they are loaded to where they are handed out.
class BatchCopier {
 public:
  /// Throws what DataLoader says of its device, normalize and augment.
  BatchCopier(const Dataset& dataset, const DataLoaderOptions& options);

  /// A batch of n examples to be loaded: in pinned memory, where the device has any.
  Batch allocate(std::int64_t n) const;
  /// Whether copies run beside the device's work, so that the next batch is best sent before this one is used.
  bool works_ahead() const { return !loads_there_; }
  /// Gives the copy of a loaded batch to the device, on the stream for copies.
  Batch send(const Batch& loaded) const;
  /// What was sent, as it is handed out: whatever the thread's stream is given from now on finds it there. Its first
  /// image is number `first` of those that are augmented by numbers from `draws` on.
  Batch receive(const Batch& sent, const PhiloxState& draws, std::int64_t first) const;

 private:
  const Dataset& dataset_;
  const Device device_;
  bool loads_there_;
  Augmentation augment_;
  bool moves_targets_ = false;  // as x's pixels move
  Tensor table_;                // of normalize: what becomes of each pixel
};

}  // namespace bytetape::data
