#pragma once
#include <array>
#include <filesystem>
#include <optional>
#include <vector>

#include "bytetape/data/dataset.h"

namespace bytetape::data {

/// CIFAR-10: colour images of ten classes (Krizhevsky, "Learning multiple layers of features from tiny images", 2009).
struct Cifar10 {
  Tensor images;  ///< u8 (n, 3, 32, 32)
  Tensor labels;  ///< i64 (n,), 0 to 9
};

/// The names of the classes, by label.
inline constexpr std::array<const char*, 10> cifar10_classes{"airplane", "automobile", "bird",  "cat",  "deer",
                                                             "dog",      "frog",       "horse", "ship", "truck"};

/// The customary mean and standard deviation of the training images' channels.
inline constexpr Normalize cifar10_normalize{{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};

/// Returns the folders in which find_cifar10() looks, in order.
/// If `dir` is given: `dir` and `dir`/cifar-10-batches-bin. Else, if $BYTETAPE_DATA is set, $BYTETAPE_DATA and
/// $BYTETAPE_DATA/cifar-10-batches-bin; then ${XDG_CACHE_HOME:-~/.cache}/bytetape/cifar-10-batches-bin.
std::vector<std::filesystem::path> cifar10_folders(const std::optional<std::filesystem::path>& dir = {});

/// Returns the first of cifar10_folders() that has the six files of the binary version: data_batch_1.bin to
/// data_batch_5.bin and test_batch.bin. Returns nullopt if `dir` is not given and no folder has all six.
/// Throws FileError, naming the missing file, if `dir` is given and lacks a file or cannot be read.
/// Throws FileError if none is found and $BYTETAPE_DATA is not a readable folder.
std::optional<std::filesystem::path> find_cifar10(const std::optional<std::filesystem::path>& dir = {});

/// Returns the files of a split, for ImageRecords(files, {3, 32, 32}, 10), which does not load the images into memory.
std::vector<std::filesystem::path> cifar10_files(const std::filesystem::path& dir, Split split);

/// Reads a split into memory, from a folder that find_cifar10() returned.
/// Throws what ImageRecords throws for its files.
Cifar10 load_cifar10(const std::filesystem::path& dir, Split split);

}  // namespace bytetape::data
