#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bytetape/core/tensor.h"
#include "bytetape/data/normalize.h"

/// Data sets and loaders.
namespace bytetape::data {

/// Examples gathered along a first dim: x what the model sees, y what it should say.
struct Batch {
  Tensor x, y;
};

/// Which part of a data set: the examples to train on (60,000 of MNIST, 50,000 of CIFAR-10), or those to test on
/// (10,000).
enum class Split : std::uint8_t { train, test };

/// What one example looks like, without the batch dim.
struct ExampleSpec {
  Shape x_shape;
  DType x_dtype = DType::f32;
  Shape y_shape;
  DType y_dtype = DType::i64;
};

/// A numbered set of examples. A subclass says how many there are, what one looks like, and how to write some of them
/// into a batch; memory is allocated here, so that it is on the ledger once and alike for every dataset.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Number of examples.
  virtual std::int64_t size() const = 0;
  /// What every example looks like.
  virtual ExampleSpec example() const = 0;

  /// An uninitialised batch of n examples under the role `input`, the phase `data` and the op "collate". On a meta
  /// device it costs what a real batch costs, and holds nothing.
  Batch allocate(std::int64_t n, Device device = Device::cpu()) const;
  /// The same on the host, in memory that is pinned for `device`. Throws DeviceError where there is none.
  Batch allocate_pinned(std::int64_t n, Device device) const;
  /// Writes the examples `indices` to a batch that allocate(indices.size()) made; on a meta device nothing is written.
  /// Safe to call from several threads. Throws ShapeError where an index is outside 0 .. size() - 1, and whatever
  /// fill() throws.
  void load(std::span<const std::int64_t> indices, Batch& batch) const;
  /// The examples `indices` as a new batch on the CPU. Throws as load() does.
  Batch get(std::span<const std::int64_t> indices) const;

 protected:
  /// Writes example indices[i] to row i of x and y, which are row-major. The indices are checked. Must be safe to call
  /// from several threads at once.
  virtual void fill(std::span<const std::int64_t> indices, Tensor& x, Tensor& y) const = 0;
};

/// Rows of two tensors: x (n, ...) and y (n, ...), row-major on the CPU; or on a meta device, for batches there. As
/// they are; or, with `normalize`, u8 images (n, h, w) or (n, c, h, w) as f32 (c, h, w), where images without channels
/// get c = 1.
class TensorDataset final : public Dataset {
 public:
  /// Throws ShapeError where x and y differ in n, have no dim, or are not row-major; DeviceError on another device; and
  /// what normalized_pixels() throws.
  TensorDataset(Tensor x, Tensor y, std::optional<Normalize> normalize = {});

  std::int64_t size() const override { return x_.size(0); }
  ExampleSpec example() const override;

 protected:
  void fill(std::span<const std::int64_t> indices, Tensor& x, Tensor& y) const override;

 private:
  Tensor x_, y_;
  std::optional<std::vector<float>> pixels_;  // normalised ones, 256 a channel
};

}  // namespace bytetape::data
