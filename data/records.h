#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "bytetape/core/files/input.h"
#include "bytetape/data/dataset.h"

namespace bytetape::data {

/// Images with labels that stay in their files, however large these are: what a batch needs is read when it is loaded,
/// and nothing else is held. A file is records of one size, a label byte and then the pixels, as CIFAR-10's binary
/// version has them (https://www.cs.toronto.edu/~kriz/cifar.html); the files are one after another. x is u8 of the
/// shape of an image, y i64.
class ImageRecords final : public Dataset {
 public:
  /// Throws FileError where a file cannot be opened or is not one or more whole records; ShapeError where an image has
  /// no pixels, ValueError unless there are files and 1 to 256 classes. Batches throw FileError where a label is no
  /// class or a file has become shorter. The message has the path, and the byte at which it was found.
  ImageRecords(const std::vector<std::filesystem::path>& files, const Shape& image, int classes);
  /// Of one file, or of memory (memory_input()).
  ImageRecords(std::unique_ptr<const Input> file, const Shape& image, int classes);

  std::int64_t size() const override { return first_.back(); }
  ExampleSpec example() const override { return {image_, DType::u8, {}, DType::i64}; }
  /// All of it, read into memory.
  Batch read_all() const;

 protected:
  void fill(std::span<const std::int64_t> indices, Tensor& x, Tensor& y) const override;

 private:
  ImageRecords(const Shape& image, int classes);
  void add(std::unique_ptr<const Input> file);
  std::int64_t read_record(std::int64_t index, std::span<std::byte> pixels) const;

  std::vector<std::unique_ptr<const Input>> files_;
  std::vector<std::int64_t> first_{0};  // example of each file, and one behind the last
  Shape image_;
  std::size_t pixels_;
  int classes_;
};

}  // namespace bytetape::data
