#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "bytetape/core/files/input.h"
#include "bytetape/data/dataset.h"

namespace bytetape::data {

/// A dataset of labelled images that are read from files batch by batch, and not kept in memory.
///
/// A file is a sequence of records of one size: a label byte, then the pixels, as in CIFAR-10's binary version
/// (https://www.cs.toronto.edu/~kriz/cifar.html). Several files are concatenated. x is u8 with the shape of an image, y
/// is i64.
class ImageRecords final : public Dataset {
 public:
  /// `image` is the shape of an image, such as (c, h, w).
  /// Throws FileError if a file cannot be opened, is empty, or does not consist of whole records.
  /// Throws ShapeError if an image has no pixels.
  /// Throws ValueError if there are no files, or `classes` is not from 1 to 256.
  /// Loading a batch throws FileError if a label is not below `classes` or a file has become shorter. The message has
  /// the path and the position in bytes.
  ImageRecords(const std::vector<std::filesystem::path>& files, const Shape& image, int classes);
  /// Reads one file, or memory (memory_input()).
  ImageRecords(std::unique_ptr<const Input> file, const Shape& image, int classes);

  std::int64_t size() const override { return first_.back(); }
  ExampleSpec example() const override { return {image_, DType::u8, {}, DType::i64}; }
  /// Reads all examples into memory.
  Batch read_all() const;

 protected:
  void fill(std::span<const std::int64_t> indices, Tensor& x, Tensor& y) const override;

 private:
  ImageRecords(const Shape& image, int classes);
  void add(std::unique_ptr<const Input> file);
  std::int64_t read_record(std::int64_t index, std::span<std::byte> pixels) const;

  std::vector<std::unique_ptr<const Input>> files_;
  std::vector<std::int64_t> first_{0};  // first example of each file, then the number of examples
  Shape image_;
  std::size_t pixels_;
  int classes_;
};

}  // namespace bytetape::data
