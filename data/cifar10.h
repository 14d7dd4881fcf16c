#pragma once
#include <array>
#include <filesystem>
#include <optional>
#include <vector>

#include "bytetape/data/dataset.h"

namespace bytetape::data {

/// Small colour images of ten kinds of things, and what they show (Krizhevsky, "Learning multiple layers of features
/// from tiny images", 2009).
struct Cifar10 {
  Tensor images;  ///< u8 (n, 3, 32, 32)
  Tensor labels;  ///< i64 (n,), 0 to 9
};

/// What the labels stand for.
inline constexpr std::array<const char*, 10> cifar10_classes{"airplane", "automobile", "bird",  "cat",  "deer",
                                                             "dog",      "frog",       "horse", "ship", "truck"};

/// The mean and standard deviation of the training images' channels, as everybody uses them.
inline constexpr Normalize cifar10_normalize{{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};

/// Where find_cifar10() looks, in this order: `dir` and `dir`/cifar-10-batches-bin where `dir` is given; else
/// $BYTETAPE_DATA and $BYTETAPE_DATA/cifar-10-batches-bin where that is set, then
/// ${XDG_CACHE_HOME:-~/.cache}/bytetape/cifar-10-batches-bin.
std::vector<std::filesystem::path> cifar10_folders(const std::optional<std::filesystem::path>& dir = {});

/// The first of cifar10_folders() that holds the six files of the binary version, data_batch_1.bin to data_batch_5.bin
/// and test_batch.bin; nullopt where none has all six. Throws FileError, naming the missing file, where `dir` is given
/// and has not, or cannot be read; and where none is found and $BYTETAPE_DATA is no folder that can be read.
std::optional<std::filesystem::path> find_cifar10(const std::optional<std::filesystem::path>& dir = {});

/// The files of one split, for ImageRecords(files, {3, 32, 32}, 10), which leaves the images there.
std::vector<std::filesystem::path> cifar10_files(const std::filesystem::path& dir, Split split);

/// Reads one split from a folder that find_cifar10() found. Throws what ImageRecords throws of its files.
Cifar10 load_cifar10(const std::filesystem::path& dir, Split split);

}  // namespace bytetape::data
