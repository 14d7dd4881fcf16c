#pragma once
#include <bytetape/bytetape.h>

#include "examples/program.h"

namespace bytetape::examples {

inline constexpr std::int64_t race_image_size = 32;  // pixels

/// The images of the race, resident on the default device as bytes. A batch is made in one launch.
///
/// Training images flip alternately: a random half is flipped in even epochs, the other half in odd ones, so that two
/// epochs show each image both ways (Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024). Both forms are
/// kept, in memory that does not move, so that captured steps can gather from it.
class RaceData {
 public:
  /// Batches have images of `dtype`.
  RaceData(const Splits& splits, DType dtype);

  std::int64_t training_size() const { return originals_.size(0); }
  std::int64_t test_size() const { return testing_.size(); }
  /// Draws which images are flipped in even epochs, from the default generator.
  void draw_flips();
  /// Returns the indices of an epoch's images for training_batch(), i64 (training_size()), in a random order.
  Tensor draw_order(int epoch) const;
  /// Returns the middle `size` x `size` pixels of images that are moved by up to two pixels in each direction, with
  /// reflected borders, and their labels. `size` must be even.
  data::Batch training_batch(const Tensor& indices, std::int64_t size) const;
  /// Returns the first `n` training images as they are, in f32.
  Tensor first_images(std::int64_t n) const;
  data::Batch test_batch(const Tensor& indices) const { return testing_.get(indices); }

 private:
  Tensor originals_;      // u8 (n, 3, 32, 32)
  Tensor both_, labels_;  // the images of even epochs, then those of odd epochs
  data::ResidentImages training_, testing_;
};

}  // namespace bytetape::examples
