#include "bytetape/data/mnist.h"

#include <algorithm>
#include <array>
#include <utility>

#include "bytetape/core/memory/ledger/scope.h"
#include "bytetape/data/folders.h"
#include "bytetape/data/idx.h"

namespace bytetape::data {
namespace {

namespace fs = std::filesystem;
using memory::Op;

struct Files {
  const char *images, *labels;
};
constexpr Files files_of(Split split) {
  return split == Split::train ? Files{"train-images-idx3-ubyte", "train-labels-idx1-ubyte"}
                               : Files{"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
}

/// Returns the plain file, or the one with .gz, or an empty path if there is neither.
fs::path find_file(const fs::path& dir, const char* name) {
  std::error_code ignored;  // a file that cannot be accessed counts as missing
  for (const char* suffix : {"", ".gz"})
    if (fs::path path = dir / (std::string(name) + suffix); fs::is_regular_file(path, ignored)) return path;
  return {};
}

/// Returns the first of the four files that is missing in `dir`; null if none is.
const char* missing_mnist_file(const fs::path& dir) {
  for (const Split split : {Split::train, Split::test})
    for (const char* name : {files_of(split).images, files_of(split).labels})
      if (find_file(dir, name).empty()) return name;
  return nullptr;
}

fs::path existing_file(const fs::path& dir, const char* name) {
  fs::path path = find_file(dir, name);
  check<FileError>(!path.empty(), dir.string(), ": expected MNIST's four files, but ", name, "[.gz] is missing");
  return path;
}

Tensor digits_from(const Tensor& bytes, const fs::path& path) {
  const auto* from = std::as_const(bytes).data<std::uint8_t>();
  for (std::int64_t i = 0; i < bytes.numel(); ++i)
    check<FileError>(from[i] < 10, path.string(), ": expected labels 0 to 9, found ", int{from[i]}, " at ", i);
  const Op<"load_mnist"> op;  // after the checks, whose messages name the file
  Tensor labels = empty(bytes.shape(), DType::i64, Device::cpu(), memory::Role::input);
  std::copy_n(from, bytes.numel(), labels.data<std::int64_t>());
  return labels;
}

}  // namespace

std::vector<fs::path> mnist_folders(const std::optional<fs::path>& dir) { return data_folders(dir, "mnist"); }

std::optional<fs::path> find_mnist(const std::optional<fs::path>& dir) {
  for (const fs::path& folder : mnist_folders(dir))
    if (!missing_mnist_file(folder)) return folder;
  check_folder(dir);
  if (!dir) return std::nullopt;
  existing_file(*dir, missing_mnist_file(*dir));  // throws an error that names the missing file
  return std::nullopt;
}

Mnist load_mnist(const fs::path& dir, Split split) {
  const fs::path images_path = existing_file(dir, files_of(split).images);
  const fs::path labels_path = existing_file(dir, files_of(split).labels);
  Tensor images = read_idx(images_path);
  check<FileError>(images.dtype() == DType::u8 && images.rank() == 3 && images.size(1) == 28 && images.size(2) == 28,
                   images_path.string(), ": expected images u8(n, 28, 28), found ", describe(images));
  const Tensor labels = read_idx(labels_path);
  check<FileError>(labels.dtype() == DType::u8 && labels.rank() == 1, labels_path.string(),
                   ": expected labels u8(n,), found ", describe(labels));
  check<FileError>(images.size(0) == labels.size(0), labels_path.string(), ": expected ", images.size(0),
                   " labels, one for each image in ", images_path.filename().string(), ", found ", labels.size(0));
  return {std::move(images), digits_from(labels, labels_path), "MNIST"};
}

}  // namespace bytetape::data
