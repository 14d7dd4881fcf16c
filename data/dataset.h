#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bytetape/core/tensor.h"
#include "bytetape/data/batch.h"
#include "bytetape/data/example_spec.h"
#include "bytetape/data/normalize.h"

/// Datasets and loaders.
namespace bytetape::data {

/// A part of a dataset: the training examples (60,000 in MNIST, 50,000 in CIFAR-10) or the test examples (10,000).
enum class Split : std::uint8_t { train, test };

/// Base class of datasets: indexed examples that are copied into batches (torch.utils.data.Dataset).
///
/// A subclass defines the number of examples, their shapes and dtypes, and how to write examples into a batch. This
/// class allocates the batches, so that the ledger has them once and in the same way for every dataset.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Returns the number of examples.
  virtual std::int64_t size() const = 0;
  /// Returns the shapes and dtypes that all examples have.
  virtual ExampleSpec example() const = 0;

  /// Returns an uninitialised batch of n examples, with the role `input`, the phase `data` and the op "collate".
  /// On a meta device the batch is accounted like a real one and has no data.
  Batch allocate(std::int64_t n, Device device = Device::cpu()) const;
  /// Returns an uninitialised batch of n examples in host memory that is pinned for `device`.
  /// Throws DeviceError if the device has no pinned memory.
  Batch allocate_pinned(std::int64_t n, Device device) const;
  /// Writes the examples `indices` to a batch that allocate(indices.size()) returned.
  /// Nothing is written on a meta device. May be called from several threads at once.
  /// Throws ShapeError if an index is not in 0 .. size() - 1.
  /// Exceptions from fill() and fill_more() pass through.
  void load(std::span<const std::int64_t> indices, Batch& batch) const;
  /// Returns the examples `indices` as a new batch on the CPU.
  /// Throws what load() throws.
  Batch get(std::span<const std::int64_t> indices) const;

 protected:
  /// Writes example indices[i] to row i of x and y, which are row-major.
  /// The indices are valid. Must be safe to call from several threads at once.
  virtual void fill(std::span<const std::int64_t> indices, Tensor& x, Tensor& y) const = 0;
  /// Writes example indices[i] to row i of the batch's further tensors, such as batch["mask"], which are row-major.
  /// Called after fill(), on the same thread, if example() has further fields. A dataset that reads an example as a
  /// whole may write x and y here too, and nothing in fill().
  /// Default: throws NotImplemented.
  virtual void fill_more(std::span<const std::int64_t> indices, Batch& batch) const;
};

/// A further tensor (n, ...) of a TensorDataset, with its name in a batch.
struct TensorField {
  std::string name;
  Tensor rows;
  bool moves_with_x = false;  ///< as Field::moves_with_x
};

/// The rows of tensors x (n, ...) and y (n, ...), and of any further ones, row-major on the CPU, or on a meta device
/// for meta batches (torch.utils.data.TensorDataset).
///
/// With `normalize`, x has u8 images (n, h, w) or (n, c, h, w), and an example has normalised f32 images (c, h, w).
/// Images without a channel dim get c = 1.
class TensorDataset final : public Dataset {
 public:
  /// `normalize` changes x only.
  /// Throws ShapeError if the tensors differ in n, have no dim, or are not row-major.
  /// Throws DeviceError if a tensor is neither on the CPU nor on a meta device.
  /// Throws ValueError if a tensor is undefined, or a name is empty, "x", "y" or repeated.
  /// Throws what normalized_pixels() throws.
  TensorDataset(Tensor x, Tensor y, std::optional<Normalize> normalize = {}, std::vector<TensorField> more = {});

  std::int64_t size() const override { return x_.size(0); }
  ExampleSpec example() const override;

 protected:
  void fill(std::span<const std::int64_t> indices, Tensor& x, Tensor& y) const override;
  void fill_more(std::span<const std::int64_t> indices, Batch& batch) const override;

 private:
  std::vector<Field> fields() const;

  Tensor x_, y_;
  std::vector<TensorField> more_;
  std::optional<std::vector<float>> pixels_;  // normalised values, 256 per channel
};

}  // namespace bytetape::data
