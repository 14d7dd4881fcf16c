#include "bytetape/data/records.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "bytetape/core/memory/ledger/scope.h"

namespace bytetape::data {

using memory::Op;

static std::size_t pixels_of(const Shape& image) {
  const Op<"ImageRecords"> op;
  return bytes_of(image, DType::u8);
}

ImageRecords::ImageRecords(const Shape& image, int classes)
    : image_(image), pixels_(pixels_of(image)), classes_(classes) {
  const Op<"ImageRecords"> op;
  check(pixels_ > 0, "expected images with pixels, got ", image);
  check<ValueError>(classes >= 1 && classes <= 256, "expected 1 to 256 classes, because a label is a byte, got ",
                    classes);
}

ImageRecords::ImageRecords(const std::vector<std::filesystem::path>& files, const Shape& image, int classes)
    : ImageRecords(image, classes) {
  const Op<"ImageRecords"> op;
  check<ValueError>(!files.empty(), "expected at least one file");
  for (const auto& path : files) add(open_input(path));
}

ImageRecords::ImageRecords(std::unique_ptr<const Input> file, const Shape& image, int classes)
    : ImageRecords(image, classes) {
  const Op<"ImageRecords"> op;
  add(std::move(file));
}

void ImageRecords::add(std::unique_ptr<const Input> file) {
  const std::uint64_t record = pixels_ + 1, n = file->size() / record, rest = file->size() % record;
  file->check_at(n > 0 && rest == 0, n * record, "expected whole records of ", record, " bytes, found ", rest);
  first_.push_back(first_.back() + static_cast<std::int64_t>(n));
  files_.push_back(std::move(file));
}

Batch ImageRecords::read_all() const {
  const Op<"ImageRecords"> op;
  std::vector<std::int64_t> indices(static_cast<std::size_t>(size()));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  Shape shape = image_;
  shape.insert(0, size());
  Batch all{empty(shape, DType::u8, Device::cpu(), memory::Role::input),
            empty(size(), DType::i64, Device::cpu(), memory::Role::input)};
  fill(indices, all.x, all.y);
  return all;
}

void ImageRecords::fill(std::span<const std::int64_t> indices, Tensor& x, Tensor& y) const {
  auto* pixels = reinterpret_cast<std::byte*>(x.data<std::uint8_t>());
  auto* label = y.data<std::int64_t>();
  for (const std::int64_t i : indices) {
    *label++ = read_record(i, {pixels, pixels_});
    pixels += pixels_;
  }
}

/// Reads the pixels of an example and returns its label.
std::int64_t ImageRecords::read_record(std::int64_t index, std::span<std::byte> pixels) const {
  const auto behind = std::upper_bound(first_.begin(), first_.end(), index);
  const Input& file = *files_[static_cast<std::size_t>(behind - first_.begin() - 1)];
  const std::uint64_t offset = static_cast<std::uint64_t>(index - *(behind - 1)) * (pixels_ + 1);
  std::byte label{};
  file.read_all(offset, {&label, 1});
  file.read_all(offset + 1, pixels);
  const auto found = std::to_integer<int>(label);
  file.check_at(found < classes_, offset, "expected a label 0 to ", classes_ - 1, ", found ", found);
  return found;
}

}  // namespace bytetape::data
