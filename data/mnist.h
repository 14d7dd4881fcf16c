#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bytetape/data/dataset.h"

namespace bytetape::data {

/// Images of handwritten digits and what they show.
struct Mnist {
  Tensor images;     ///< u8 (n, 28, 28), 0 is background
  Tensor labels;     ///< i64 (n,), 0 to 9
  std::string name;  ///< what to call the data in every output: "MNIST", or "generated digits"
};

/// Where find_mnist() looks, in this order: `dir` and `dir`/mnist where `dir` is given; else $BYTETAPE_DATA and
/// $BYTETAPE_DATA/mnist where that is set, then ${XDG_CACHE_HOME:-~/.cache}/bytetape/mnist, where
/// scripts/download_mnist puts the files.
std::vector<std::filesystem::path> mnist_folders(const std::optional<std::filesystem::path>& dir = {});

/// The first of mnist_folders() that holds MNIST's four files under their original names, plain or with .gz; nullopt
/// where none has all four. Throws FileError, naming the missing file, where `dir` is given and has not, or cannot be
/// read; and where none is found and $BYTETAPE_DATA is no folder that can be read.
std::optional<std::filesystem::path> find_mnist(const std::optional<std::filesystem::path>& dir = {});

/// Reads one split from a folder that find_mnist() found. Throws FileError where a file is missing or corrupt, images
/// are not 28 x 28, a label is not a digit, or there are not as many labels as images.
Mnist load_mnist(const std::filesystem::path& dir, Split split);

}  // namespace bytetape::data
