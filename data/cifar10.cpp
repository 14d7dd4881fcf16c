#include "bytetape/data/cifar10.h"

#include <string>

#include "bytetape/core/error.h"
#include "bytetape/data/folders.h"
#include "bytetape/data/records.h"

namespace bytetape::data {

namespace fs = std::filesystem;

/// Returns the first of the six files that is missing in `dir`; "" if none is.
static std::string missing_cifar10_file(const fs::path& dir) {
  std::error_code ignored;  // a file that cannot be accessed counts as missing
  for (const Split split : {Split::train, Split::test})
    for (const fs::path& file : cifar10_files(dir, split))
      if (!fs::is_regular_file(file, ignored)) return file.filename();
  return {};
}

std::vector<fs::path> cifar10_folders(const std::optional<fs::path>& dir) {
  return data_folders(dir, "cifar-10-batches-bin");
}

std::optional<fs::path> find_cifar10(const std::optional<fs::path>& dir) {
  for (const fs::path& folder : cifar10_folders(dir))
    if (missing_cifar10_file(folder).empty()) return folder;
  check_folder(dir);
  if (!dir) return std::nullopt;
  fail<FileError>(dir->string(), ": expected CIFAR-10's six files, but ", missing_cifar10_file(*dir), " is missing");
}

std::vector<fs::path> cifar10_files(const fs::path& dir, Split split) {
  if (split == Split::test) return {dir / "test_batch.bin"};
  std::vector<fs::path> files;
  for (int i = 1; i <= 5; ++i) files.push_back(dir / ("data_batch_" + std::to_string(i) + ".bin"));
  return files;
}

Cifar10 load_cifar10(const fs::path& dir, Split split) {
  const Batch all = ImageRecords(cifar10_files(dir, split), {3, 32, 32}, cifar10_classes.size()).read_all();
  return {all.x, all.y};
}

}  // namespace bytetape::data
